"""Whether a file computes what the model computes: on which inputs, how near, and where not."""

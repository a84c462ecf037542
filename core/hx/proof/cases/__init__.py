"""Cases of a proof: inputs for the file, and the model's own outputs for them."""

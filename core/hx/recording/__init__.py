"""One run of the model: what each call means, from the door where it arrives to the nodes it writes."""

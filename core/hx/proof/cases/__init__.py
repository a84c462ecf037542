"""What a file is proved on: which inputs, and what the model itself gives for them."""

"""The values of the tensors of a recording, and the memory that they share."""

"""Models, inputs and files of tensors that a command line names."""

"""What a command line names: models, inputs, files of tensors."""

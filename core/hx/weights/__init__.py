"""Contents of weights that stay where they are until the file is written."""

"""Files: a graph and its weights as bytes, written whole or not at all."""

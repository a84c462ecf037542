"""Nodes: written and checked, said in the words of an opset, made into one clean graph."""

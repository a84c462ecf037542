"""Nodes: written and checked, translated to an opset, made into one clean graph."""

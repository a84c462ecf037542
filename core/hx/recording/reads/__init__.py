"""Reads of values and sizes by Python: questions that choose a path, and numbers that leave the graph."""

"""Modes of PyTorch in which a model runs: in float64, within limits, or without its weights."""

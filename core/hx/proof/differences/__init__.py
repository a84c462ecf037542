"""Differences between file and model: how large they may be, and the evidence that explains them."""

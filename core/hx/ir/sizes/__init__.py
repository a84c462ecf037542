"""Sizes that may change: their origins, the questions asked about them, and arithmetic on them."""

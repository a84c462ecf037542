"""Sparse convolutions as operators of a domain of their own, for runtimes that have kernels."""

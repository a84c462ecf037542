"""Proof of files with random numbers."""

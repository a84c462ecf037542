"""Mistakes planted in the graphs of correct files: how many of them the proof finds."""

"""Models by family: one file for each."""

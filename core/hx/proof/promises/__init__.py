"""Sizes that a file is promised for, where it is not right at all sizes."""

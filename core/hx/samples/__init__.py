"""Inputs derived from the user's inputs, with other values or sizes."""

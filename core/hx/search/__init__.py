"""Search for a recipe that gives a right file."""

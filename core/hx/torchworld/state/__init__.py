"""State of a model and of the code around it: remembered before a run, compared, and put back."""

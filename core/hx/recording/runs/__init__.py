"""State around the runs of a model: limits, known results, random numbers, and what is put back."""

"""Models in the styles that people write, and judgements of what their exports promise."""

"""The model's own functions, respelled where Python would lose a size, and what is called in them."""

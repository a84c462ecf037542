"""What the tensors of a recording stand for, and what memory they share."""

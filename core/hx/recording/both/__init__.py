"""Both ways of a branch: recordings of one model, which went different ways, become one graph.

A recording is a row of nodes, with the questions of the model between them (see `questions`). Two
of them are laid side by side. They are the same up to a question that had another answer in each:
there they part, until they go on alike. What lies between becomes the two sides of an `If`, and what
is read behind it, and came from either side, the results of that. What was asked in one recording
alone stays answered as it was there.
"""

from .every import record

__all__ = ["record"]

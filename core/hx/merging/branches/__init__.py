"""Merge of branches: recordings of one model that went different ways become one graph.

A recording is a row of nodes, with the questions of the model between them (see `questions`). Two
rows are laid side by side. They are the same up to a question that has another answer in each.
There they part, until they go on alike. The nodes between become the two sides of an `If`. The
values made on either side and read behind it become its results. A question that only one recording
asks keeps its recorded answer.
"""

from .explore import merge
from .node_rows import TooManyWays

__all__ = ["TooManyWays", "merge"]

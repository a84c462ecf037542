"""Merge of loops: rounds that a recording repeats as often as a size says become a Loop.

`for t in range(x.shape[1])` is recorded round by round. If the rounds differ only in what the round
before made and in numbers that count them, they are written once. Values that pass from round to
round are carried; values of each round that are read behind the loop are stacked. A list of what
each round made, given to `torch.stack` or `torch.cat`, is as long as the loop.
"""

from .branches_in_rounds import asked_in_rounds, merge_in_turn, merge_with_branches
from .constants_across_lengths import Before
from .find_repeats import counts
from .write_loops import write_loops

__all__ = [
    "Before",
    "asked_in_rounds",
    "counts",
    "merge_in_turn",
    "merge_with_branches",
    "write_loops",
]

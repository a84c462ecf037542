"""Loops over sizes: what a recording has as often as a size said becomes a Loop.

`for t in range(x.shape[1])` is recorded round by round. Where the rounds are alike but for what the
last one made and for numbers that count them, they are written once: what goes from round to round
is carried, what is read behind it of each round is stacked. A list of what each round made, given to
`torch.stack` or `torch.cat`, is as long as the loop.
"""

from .before import Before
from .branches import asked_in_rounds, both_ways
from .lengths import Lengths, at_enough_rounds, rounds_of
from .repeats import counts
from .rolling import record

__all__ = [
    "Before",
    "Lengths",
    "asked_in_rounds",
    "at_enough_rounds",
    "both_ways",
    "counts",
    "record",
    "rounds_of",
]

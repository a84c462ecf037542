"""Facts learnt during the search for a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType, FunctionType

from .recipe import Answers, Line, Padded


@dataclass(frozen=True)
class Knowledge:
    """Facts from all recordings and proofs of one export. They are only ever added to."""

    asked: set[str] = field(default_factory=set)  # questions about tracing that the model asked
    met: set[CodeType] = field(default_factory=set)  # code that ran, as far as it was seen
    respelled: set[CodeType] = field(default_factory=set)  # code that a copy ran for
    looked_for: set[int] = field(
        default_factory=set
    )  # ids of codes met whose functions were sought
    unnamed: list[FunctionType] = field(default_factory=list)  # functions that no name leads to
    # Ifs in loops whose sides can both be computed; True if they count numbers, or append to lists.
    selectable: dict[Line, bool] = field(default_factory=dict)
    wrong_sizes: list[dict[str, int]] = field(default_factory=list)  # of any file
    # Questions that lead more ways than are recorded: by answers about tracing, padding, and lines.
    too_many_ways: set[tuple[Answers, Padded | None, frozenset[Line]]] = field(default_factory=set)
    padded_lines: list[Line] = field(default_factory=list)  # the last one of each recording

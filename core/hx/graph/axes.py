"""Reordered axes of a value."""

from __future__ import annotations

from ..ir.value import Value
from .op import Op


def moved(op: Op, value: Value, rank: int, source: int, place: int) -> Value:
    """The value, with one of its axes at another place."""
    if source == place:
        return value
    order = [axis for axis in range(rank) if axis != source]
    order.insert(place, source)
    return op.Transpose(value, perm=order)

"""Axes of a value in another order."""

from __future__ import annotations

from builtins import range  # its own: `world` hooks that of the model

from ..tensors.values import Value
from .op import Op


def moved(op: Op, value: Value, rank: int, source: int, place: int) -> Value:
    """The value, with one of its axes at another place."""
    if source == place:
        return value
    order = [axis for axis in range(rank) if axis != source]
    order.insert(place, source)
    return op.Transpose(value, perm=order)

"""One of the many views that a call returns, by itself: the third of `unbind` is `select(dim, 2)`.

A loop over the rows of a tensor that writes to each reads every row anew after a write to another.
If each read made all rows again, each round would record as many rows as there are rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_Call = tuple[str, tuple]  # an operator, and what it is called with


def _of_unbind(at: int, input: Any, dim: int = 0) -> _Call | None:
    return "aten::select", (input, dim, at)


def _of_split(at: int, tensor: Any, size: Any, dim: int = 0) -> _Call | None:
    if not isinstance(size, int):
        return None  # a list of sizes
    return "aten::slice", (tensor, dim, at * size, (at + 1) * size)


_ALONE: dict[str, Callable[..., _Call | None]] = {
    "torch.unbind": _of_unbind,
    "torch.split": _of_split,
    "torch.Tensor.split": _of_split,
    "torch.functional.split": _of_split,
}


def alone(target: str, args: tuple, kwargs: dict, output: tuple) -> _Call | None:
    """Return the call that gives one output of another call; None where there is none."""
    made = _ALONE.get(target)
    if made is None or len(output) != 1 or kwargs.keys() - {"dim"}:
        return None
    return made(output[0], *args, **kwargs)

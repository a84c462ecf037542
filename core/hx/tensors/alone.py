"""One of the many views that a call gives, by itself: what `unbind` gives third is `select(dim, 2)`.

A loop over the rows of a tensor that writes to each reads every row anew, once another was written
to. Were all of them made again for the one that is read, a recording would have as many rows as
there are rounds in each round.
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
    """The call that gives this one output of another; None where there is none."""
    made = _ALONE.get(target)
    if made is None or len(output) != 1 or kwargs.keys() - {"dim"}:
        return None
    return made(output[0], *args, **kwargs)

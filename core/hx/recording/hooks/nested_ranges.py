"""`itertools.product` of ranges that are as long as sizes: the loops in loops that it stands for."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ...ir.sizes import size_lists
from ..recording import Recording
from .builtin_hooks import Place


def places(recording: Recording) -> list[Place]:
    """Functions to replace: owner, name, and the maker of what replaces each."""

    def wrap(original: Callable) -> Callable:
        def product(*several: Any, repeat: Any = 1) -> Any:
            sized = any(type(each) is size_lists.Whole for each in several)
            if recording.running.busy or not sized or type(repeat) is not int:
                return original(*several, repeat=repeat)
            kept = [each if type(each) is size_lists.Whole else (*each,) for each in several]
            return _cells(kept * repeat)

        return product

    return [(itertools, "product", wrap)]


def _cells(several: list[Any]) -> Iterator[tuple]:
    """Yield the items of the last one for each item of those before it."""
    if not several:
        yield ()
        return
    first, *rest = several
    if type(first) is size_lists.Whole and first.bounds is not None:
        start, stop, step = first.bounds
        from_zero = type(start) is int and (start, step) == (0, 1)
        # Each inner loop asks anew.
        first = builtins.range(stop) if from_zero else builtins.range(start, stop, step)
    for each in first.gone_over() if type(first) is size_lists.Whole else first:
        for more in _cells(rest):
            yield each, *more

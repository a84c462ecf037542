"""Exceptions of PyTorch that the model catches: they decide its path, as a question does.

Sizes cause them, or the elements of tensors: `try: y = x.view(-1, 5)`. If sizes alone do, the call
can be repeated at any size, on tensors without contents.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ...errors import Where
from ...ir.sizes import dims
from ...ir.sizes.comparisons import Asked, Unforeseen
from ..calls.arguments import tensors_in
from ..memory.live_tensors import Live
from ..origins import Frames, is_machinery


@dataclasses.dataclass
class _Like:
    """A tensor among arguments, without its contents."""

    shape: tuple[Any, ...]
    dtype: torch.dtype
    order: list[int]  # of its axes, as they lie in memory

    def empty(self, size: Callable[[Any], Any]) -> torch.Tensor:
        shape = [size(n) for n in self.shape]
        made = torch.empty([shape[axis] for axis in self.order], dtype=self.dtype, device="meta")
        return made.permute([self.order.index(axis) for axis in range(len(shape))])


@dataclasses.dataclass
class _Raised:
    problem: Exception
    name: str  # of what was called
    where: Where
    call: Callable  # the same, at other sizes
    sizes: list[Any]  # those among its arguments that may vary

    def asked(self) -> list[Asked] | None:
        """Return the comparisons that cause it, as far as known; None if nothing that may vary does."""
        again = self._at(*map(dims.plain, self.sizes))
        if type(again) is type(self.problem) and str(again) == str(self.problem):
            return [dims.asked(self._raises, *self.sizes)] if self.sizes else None
        return [Asked(each.ask, each.of, guessed=True) for each in dims.baked(self.sizes)]

    def _raises(self, *sizes: Any) -> bool:
        found = self._at(*sizes)
        if found is not None and type(found) is not type(self.problem):
            raise Unforeseen
        return found is not None

    def _at(self, *sizes: Any) -> Exception | None:
        try:
            self.call(*sizes)
        except Exception as problem:  # PyTorch's own, of any kind
            return problem
        return None


class Raised:
    """Exceptions that left a call in one recording, each with the call."""

    def __init__(self) -> None:
        self._held: dict[tuple[Where, type], _Raised] = {}

    def note(
        self,
        live: Live,
        where: Callable[[], Where],
        problem: Exception,
        name: str,
        func: Callable,
        args: tuple,
        kwargs: Any,
    ) -> None:
        """Remember an exception that leaves a call; the frame that catches it is not known yet."""
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            given = _like(live, (args, dict(kwargs)))
            sizes: list[Any] = []

            def seen(size: Any) -> Any:
                sizes.append(size)
                return dims.plain(size)

            _filled(given, seen)
            if sizes or any(_traced(live, t) for _, t in tensors_in((args, kwargs))):
                call = functools.partial(_call, func, given)
                found = _Raised(problem, name, where(), call, sizes)
                self._held[found.where, type(problem)] = found

    def caught(self, frames: Frames) -> Iterator[tuple[str, Where, list[Asked]]]:
        """Yield a text, the place and the causes of each exception that a finished model caught."""
        for found in self._held.values():
            # An exception keeps the frames that it has left, and the one where it was caught.
            trace = found.problem.__traceback__
            by = None if trace is None else trace.tb_frame.f_code
            theirs = by is not None and is_machinery(by)
            if not theirs and (asked := found.asked()) is not None:
                kind = type(found.problem).__name__
                told = f"the model catches the {kind} of {found.name}"
                yield told, found.where, asked

    def forget(self) -> None:
        """Release the exceptions, which keep the variables of their frames."""
        self._held.clear()


def _call(func: Callable, given: Any, *sizes: Any) -> None:
    left = iter(sizes)
    args, kwargs = _filled(given, lambda size: next(left))
    func(*args, **kwargs)


def _like(live: Live, x: Any) -> Any:
    """Return arguments without the contents of tensors."""
    if isinstance(x, torch.Tensor):
        entry = live.find(x)
        known = None if entry is None else entry.value.shape
        shape: tuple[Any, ...] = tuple(x.shape) if known is None else known
        order = [*range(x.dim())]
        if len(shape) != x.dim():  # of a complex one, the parts are the last axis
            shape = tuple(x.shape)
        if x.layout is torch.strided and not x.is_nested:
            strides = x.stride()
            order.sort(key=lambda axis: -strides[axis])
        return _Like(shape, x.dtype, order)
    return _through(x, functools.partial(_like, live))


def _filled(x: Any, size: Callable[[Any], Any]) -> Any:
    """Return arguments with tensors in them again, of the sizes that `size` returns."""
    if isinstance(x, _Like):
        return x.empty(lambda n: size(n) if dims.is_dynamic(n) else n)
    return size(x) if dims.is_dynamic(x) else _through(x, lambda y: _filled(y, size))


def _through(x: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(x, slice):
        return slice(change(x.start), change(x.stop), change(x.step))
    if isinstance(x, dict):
        return {key: change(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return (list if isinstance(x, list) else tuple)(map(change, x))
    return x


def _traced(live: Live, tensor: torch.Tensor) -> bool:
    entry = live.find(tensor)
    return entry is not None and not entry.value.fixed

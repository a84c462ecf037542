"""Functions of NumPy that make arrays of sizes, in forms that follow these: see `tensors.arrays`.

    np.arange(n)       np.array([h, w]) / 2       np.mgrid[:h, :w]       np.tile(anchors, (n, 1))

What is given to them as a list or as a shape says nothing of itself to NumPy: it would ask each size
for a plain number.
"""

from __future__ import annotations

import operator
import sys
from builtins import len, range  # their own: `world` hooks those of the model
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..sizes import dims, lists
from ..tensors import arrays
from . import patching
from .carriers import Wrap, of_all

_OF_ALL: dict[str, Callable] = {
    "prod": operator.mul,
    "max": dims.larger,
    "amax": dims.larger,
    "min": dims.smaller,
    "amin": dims.smaller,
}
_OF_LISTS = ("meshgrid", "tile", "repeat", "broadcast_to")
GRIDS = type(np.mgrid).__mro__[1]  # of which np.mgrid and np.ogrid are


def wraps(recording: Any) -> dict[str, Wrap]:
    """What stands for NumPy's functions, by their names."""
    found = {name: of_all(combine) for name, combine in _OF_ALL.items()}
    for name in ("array", "asarray", "asanyarray", "ascontiguousarray"):
        found[name] = _of_array(recording, name)
    found |= {name: _of_maker(recording, maker) for name, maker in _MAKERS.items()}
    found["empty"] = _of_maker(recording, _MAKERS["zeros"], np.zeros)  # nobody asks what is there
    return found | {name: _of_function(recording, name) for name in _OF_LISTS}


def _sized(x: Any) -> bool:
    """Whether there is a size in it, however deep."""
    if isinstance(x, slice):
        return dims.is_dynamic(x.start) or dims.is_dynamic(x.stop) or dims.is_dynamic(x.step)
    if type(x) is lists.Whole:
        return x.formula is not None and x.same()
    return any(map(_sized, x)) if isinstance(x, (list, tuple)) else dims.is_dynamic(x)


def _is_list(x: Any) -> bool:
    """Whether it is a list of sizes that makes an array; NumPy's own code, which makes them of what
    it was given, asks and decides by what is in them."""
    if not isinstance(x, (list, tuple)) or not _sized(x) or _went_over(x):
        return False
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("hx."):
        frame = frame.f_back
    return frame is None or not frame.f_globals.get("__name__", "").startswith("numpy.")


def _went_over(x: Any) -> bool:
    """Whether a loop as long as a size took numbers in it out of something: it took more at others."""
    if isinstance(x, (list, tuple)):
        return type(x) is not lists.Whole and any(map(_went_over, x))
    read = dims.asked(int, x).read() if dims.is_dynamic(x) else []
    begun = [value.node.inputs[0].shape for value in read if value.node is not None]
    return any(shape is not None and any(map(dims.is_dynamic, shape)) for shape in begun)


def _of_maker(recording: Any, maker: Callable, instead: Callable | None = None) -> Wrap:
    """An array of NumPy's as long as a size says is followed as one over a tensor is."""

    def wrap(original):
        numpys = instead or original

        def make(*args, **kwargs):
            if recording.busy or not _sized([*args, *kwargs.values()]):
                return original(*args, **kwargs)
            plain, named = arrays.numbers(args), arrays.numbers(kwargs)
            of_torch = {name: x for name, x in kwargs.items() if name != "dtype"}
            if kwargs.get("dtype") is not None:
                of_torch["dtype"] = arrays.kind(kwargs["dtype"])
            return arrays.made(
                recording, lambda: numpys(*plain, **named), lambda: maker(*args, **of_torch)
            )

        return make

    return wrap


def _of_array(recording: Any, name: str) -> Wrap:
    """An array over the memory of a tensor, or one that is followed, which NumPy would make anew of
    what it gets; or one of sizes."""

    def wrap(original):
        def array(*args, **kwargs):
            if recording.busy or not args:
                return original(*args, **kwargs)
            if type(args[0]) is torch.Tensor and len(args) == 1 and not kwargs and name != "array":
                return args[0].numpy()
            if isinstance(args[0], arrays.Followed):
                return arrays.again(original, name == "array", *args, **kwargs)
            if _is_list(args[0]):
                return arrays.listed(recording, original, *args, **kwargs)
            return original(*args, **kwargs)

        return array

    return wrap


def _of_function(recording: Any, name: str) -> Wrap:
    """A function that is given a size, or a list of them, in place of an array."""
    known = patching.behind(getattr(np, name))

    def wrap(original):
        def called(*args, **kwargs):
            if recording.busy or not _sized([*args, *kwargs.values()]):
                return original(*args, **kwargs)
            of_arrays = len(args) if name == "meshgrid" else 1
            given = [_as_array(recording, x) for x in args[:of_arrays]]
            return arrays.called(recording, original, known, (*given, *args[of_arrays:]), kwargs)

        return called

    return wrap


def _as_array(recording: Any, x: Any) -> Any:
    if _is_list(x):
        return arrays.listed(recording, np.asarray, x)
    return np.asarray(x) if isinstance(x, (list, tuple, range)) else x


def of_grids(recording: Any) -> Wrap:
    """`np.mgrid[:h, :w]` and `np.ogrid[:h, :w]`"""

    def wrap(original):
        def grid(self, key):
            if recording.busy or not _sized(key):
                return original(self, key)
            plain = arrays.numbers(key)
            return arrays.made(
                recording, lambda: original(self, plain), lambda: _grid(key, self.sparse)
            )

        return grid

    return wrap


def _grid(key: Any, sparse: bool) -> Any:
    if isinstance(key, slice):
        return _steps(key)
    each = [_steps(one) for one in key]
    if sparse:
        ones = [[1] * i + [-1] + [1] * (len(each) - 1 - i) for i in range(len(each))]
        return tuple(one.reshape(shape) for one, shape in zip(each, ones))
    return torch.stack(torch.meshgrid(*each, indexing="ij"))


def _steps(key: slice) -> torch.Tensor:
    if isinstance(key.step, complex):
        raise TypeError("so many steps, and the end is one of them")
    start, step = (0 if key.start is None else key.start), (1 if key.step is None else key.step)
    return torch.arange(start, key.stop, step)


def _counted_evenly(start, stop, num=50, *, dtype=torch.float64):
    """As NumPy does it: in steps from the first, and the last is the end itself."""
    steps = dims.larger(num - 1, 1)
    turn = torch.arange(num)
    between = turn.double() * ((stop - start) / steps) + start
    return torch.where(turn == steps, stop * 1.0, between).to(dtype)


def _stepped(*ends, dtype=None):
    of_floats = any(isinstance(n, float) for n in ends)
    return torch.arange(*ends, dtype=dtype or (torch.float64 if of_floats else torch.int64))


def _indices(dimensions, dtype=torch.int64):
    each = torch.meshgrid(*[torch.arange(n, dtype=dtype) for n in dimensions], indexing="ij")
    return torch.stack(each)


def _tri(N, M=None, k=0, dtype=torch.float64):
    return torch.tril(torch.ones(N, N if M is None else M, dtype=dtype), k)


_MAKERS: dict[str, Callable] = {
    "arange": _stepped,
    "linspace": _counted_evenly,
    "ones": lambda shape, dtype=torch.float64: torch.ones(shape, dtype=dtype),
    "zeros": lambda shape, dtype=torch.float64: torch.zeros(shape, dtype=dtype),
    "eye": lambda n, dtype=torch.float64: torch.eye(n, dtype=dtype),
    "full": lambda shape, x, dtype=None: torch.full(
        shape, x, dtype=dtype or (torch.int64 if isinstance(x, int) else torch.float64)
    ),
    "indices": _indices,
    "tri": _tri,
}

"""Functions of NumPy that make arrays of sizes, and follow these: see `memory.numpy_arrays`.

    np.arange(n)       np.array([h, w]) / 2       np.mgrid[:h, :w]       np.tile(anchors, (n, 1))

A list or a shape that they are given cannot answer for itself: NumPy would ask each size for a
plain number.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...ir.sizes import dims, size_lists
from ...torchworld import patching
from ..memory import numpy_arrays
from ..memory.numpy_makers import MAKERS
from ..recording import Recording
from .builtin_hooks import Place, Wrap, of_all

_OF_ALL: dict[str, Callable] = {
    "prod": operator.mul,
    "max": dims.larger,
    "amax": dims.larger,
    "min": dims.smaller,
    "amin": dims.smaller,
}
_OF_LISTS = ("meshgrid", "tile", "repeat", "broadcast_to")
_GRIDS = type(np.mgrid).__mro__[1]  # of which np.mgrid and np.ogrid are


def places(recording: Recording) -> list[Place]:
    """Functions of NumPy to replace: owner, name, and the maker of what replaces each."""
    found = {name: of_all(combine) for name, combine in _OF_ALL.items()}
    for name in ("array", "asarray", "asanyarray", "ascontiguousarray"):
        found[name] = _of_array(recording, name)
    found |= {name: _of_maker(recording, maker) for name, maker in MAKERS.items()}
    # The contents of `empty` are undefined anyway.
    found["empty"] = _of_maker(recording, MAKERS["zeros"], np.zeros)
    found |= {name: _of_function(recording, name) for name in _OF_LISTS}
    places: list[Place] = [(np, name, wrap) for name, wrap in found.items()]
    return [*places, (_GRIDS, "__getitem__", _of_grids(recording))]


def _holds_size(x: Any) -> bool:
    """Return True if there is a size in a nested structure."""
    if isinstance(x, slice):
        return dims.is_dynamic(x.start) or dims.is_dynamic(x.stop) or dims.is_dynamic(x.step)
    if type(x) is size_lists.Whole:
        return x.formula is not None and x.same()
    return any(map(_holds_size, x)) if isinstance(x, (list, tuple)) else dims.is_dynamic(x)


def _is_list(x: Any) -> bool:
    """Return True for a list of sizes that the model makes an array of.

    NumPy's own code, which makes such lists of its arguments, asks for and decides by their elements.
    """
    if not isinstance(x, (list, tuple)) or not _holds_size(x) or _went_over(x):
        return False
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("hx."):
        frame = frame.f_back
    return frame is None or not frame.f_globals.get("__name__", "").startswith("numpy.")


def _went_over(x: Any) -> bool:
    """Return True if a loop as long as a size took numbers of a list: it takes more at other sizes."""
    if isinstance(x, (list, tuple)):
        return type(x) is not size_lists.Whole and any(map(_went_over, x))
    read = dims.asked(int, x).read() if dims.is_dynamic(x) else []
    begun = [value.node.inputs[0].shape for value in read if value.node is not None]
    return any(shape is not None and any(map(dims.is_dynamic, shape)) for shape in begun)


def _of_maker(recording: Recording, maker: Callable, instead: Callable | None = None) -> Wrap:
    """Follow an array of NumPy's that is as long as a size, like one over a tensor."""

    def wrap(original):
        numpys = instead or original

        def make(*args, **kwargs):
            if recording.running.busy or not _holds_size([*args, *kwargs.values()]):
                return original(*args, **kwargs)
            plain, named = numpy_arrays.numbers(args), numpy_arrays.numbers(kwargs)

            def of_torch() -> Any:
                given = {name: x for name, x in kwargs.items() if name != "dtype"}
                if kwargs.get("dtype") is not None:  # torch does not have all, such as objects
                    given["dtype"] = numpy_arrays.kind(kwargs["dtype"])
                return maker(*args, **given)

            return numpy_arrays.made(recording, lambda: numpys(*plain, **named), of_torch)

        return make

    return wrap


def _of_array(recording: Recording, name: str) -> Wrap:
    """Make an array of a tensor, of an array that is followed, or of sizes; NumPy alone would lose
    track of it.
    """

    def wrap(original):
        def array(*args, **kwargs):
            if recording.running.busy or not args:
                return original(*args, **kwargs)
            if type(args[0]) is torch.Tensor and len(args) == 1 and not kwargs and name != "array":
                return args[0].numpy()
            if isinstance(args[0], numpy_arrays.Followed):
                return numpy_arrays.again(original, name == "array", *args, **kwargs)
            if _is_list(args[0]):
                return numpy_arrays.listed(recording, original, *args, **kwargs)
            return original(*args, **kwargs)

        return array

    return wrap


def _of_function(recording: Recording, name: str) -> Wrap:
    """Handle a function that is given a size, or a list of them, in place of an array."""
    known = patching.behind(getattr(np, name))

    def wrap(original):
        def called(*args, **kwargs):
            if recording.running.busy or not _holds_size([*args, *kwargs.values()]):
                return original(*args, **kwargs)
            of_arrays = len(args) if name == "meshgrid" else 1
            given = [_as_array(recording, x) for x in args[:of_arrays]]
            return numpy_arrays.called(
                recording, original, known, (*given, *args[of_arrays:]), kwargs
            )

        return called

    return wrap


def _as_array(recording: Recording, x: Any) -> Any:
    if _is_list(x):
        return numpy_arrays.listed(recording, np.asarray, x)
    return np.asarray(x) if isinstance(x, (list, tuple, range)) else x


def _of_grids(recording: Recording) -> Wrap:
    """Handle `np.mgrid[:h, :w]` and `np.ogrid[:h, :w]`."""

    def wrap(original):
        def grid(self, key):
            if recording.running.busy or not _holds_size(key):
                return original(self, key)
            plain = numpy_arrays.numbers(key)
            return numpy_arrays.made(
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

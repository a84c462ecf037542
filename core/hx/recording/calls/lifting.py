"""Turns the arguments of a call into values of the graph."""

from __future__ import annotations

from typing import Any

import torch

from ...ir.sizes import dims, size_lists
from ...ir.value import Value
from ...packs import containers
from ..memory.tensor_values import array_value, list_value, value_of
from ..recording import Recording
from .arguments import Arguments

_LEAF_TYPES = frozenset(
    {int, float, bool, str, bytes, complex, type(None), type(Ellipsis), torch.dtype, torch.device,
     torch.memory_format, torch.layout}
)  # fmt: skip


def lift(
    recording: Recording,
    args: Any,
    kwargs: Any,
    list_as_tensor: bool = False,
    joins: bool = False,
) -> Arguments:
    """Replace the tensors among the arguments of a call by their values.

    A call with `list_as_tensor` takes a list of numbers as one tensor, one that `joins` takes a
    list of tensors that may repeat.
    """
    return _Lifting(recording, list_as_tensor, joins).arguments(args, kwargs)


class _Lifting:
    """The lifting of one call.

    Its methods recurse. A closure that calls itself would be a reference cycle, which keeps every
    argument of the model alive until the next garbage collection.
    """

    __slots__ = ("_joins", "_keep", "_list_as_tensor", "_recording", "found")

    def __init__(self, recording: Recording, list_as_tensor: bool, joins: bool) -> None:
        self._recording = recording
        self._list_as_tensor, self._joins = list_as_tensor, joins
        self._keep = recording.memory.live.keep
        self.found = Arguments((), {}, [], [], False)

    def arguments(self, args: Any, kwargs: Any) -> Arguments:
        found, lifted = self.found, self.lifted
        found.args = tuple([lifted(a) for a in args])
        if kwargs:
            found.kwargs = {k: lifted(v) for k, v in kwargs.items()}
        return found

    def lifted(self, x: Any) -> Any:
        """An argument, or a part of one, with values in it."""
        kind = type(x)
        if kind in _LEAF_TYPES:
            self.found.complex |= kind is complex
            return x
        if kind is dims.Dim or kind is dims.DimFloat:
            self.found.traced = self.found.has_sizes = True
            return x
        if isinstance(x, torch.Tensor):
            value = value_of(self._recording, x)
            if self._keep is not None:  # compares the contents with those that the tensor had
                position = self._recording.position
                self._keep.look(value, x, position.where(), position.frames.user())
            self._met(x, value)
            self.found.complex |= x.dtype.is_complex
            return value
        if kind is tuple or kind is list:
            return kind([self.lifted(v) for v in x])
        if kind is torch.Size:
            return tuple([self.lifted(v) for v in x])
        if isinstance(x, dict):
            return {k: self.lifted(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return self._sequence(x)
        if kind is slice:
            return slice(self.lifted(x.start), self.lifted(x.stop), self.lifted(x.step))
        if kind.__module__ == "numpy" or hasattr(kind, "__array_function__"):
            return self._numpy(x)
        container = containers.of(x)
        if container is None:
            return x
        named, context = container.flatten(x)
        return container.unflatten({k: self.lifted(v) for k, v in named.items()}, context)

    def _met(self, tensor: torch.Tensor, value: Value) -> None:
        found = self.found
        found.tensors.append(tensor)
        found.values.append(value)
        if not value.fixed:
            found.traced = True

    def _sequence(self, x: Any) -> Any:
        """A named tuple, a list that is as long as a size, or another subclass of list or tuple."""
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)(*[self.lifted(v) for v in x])
        if not isinstance(x, size_lists.Whole):
            return [self.lifted(v) for v in x]
        if type(x) is size_lists.Whole:
            if self._joins and x.times is not None and x.same():
                self.found.traced, self.found.repeat_note = True, x.left
                return size_lists.Given([self.lifted(v) for v in x], x.length, x.times)
            value = list_value(self._recording, x, self._list_as_tensor)
            if value is not None:
                self.found.traced = True
                return value
        return size_lists.Given([self.lifted(v) for v in x], x.length)

    def _numpy(self, x: Any) -> Any:
        """A number or an array of NumPy, as the number or the tensor that torch makes of it."""
        import numpy

        if isinstance(x, numpy.generic):
            return x.item()
        if isinstance(x, numpy.ndarray) and x.dtype.kind in "biufc":
            tensor, value = array_value(self._recording, x)
            if tensor is not None:
                self._met(tensor, value)
            return value
        return x

"""The arguments and results of a recorded call: values in place of tensors, and their structure."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from ...errors import ConverterError
from ...ir.sizes import dims
from ...ir.sizes.comparisons import Asked
from ...ir.sizes.size_polynomials import Atom, Poly
from ...ir.value import Value
from ...packs import containers


@dataclasses.dataclass(slots=True)
class Arguments:
    """The arguments of a call with values in place of tensors, and facts about them."""

    args: tuple
    kwargs: dict
    tensors: list[torch.Tensor]
    values: list[Value]
    traced: bool  # some value, or some size, is only known at run time
    has_sizes: bool = False  # a size that may vary is among them
    complex: bool = False  # a complex number, or a tensor of them
    # The escape to note for a list that repeats, unless the converter asks how often it does.
    repeat_note: Any = None

    def number(self, value: Value) -> Any:
        """The number that came as a tensor of one element; None if inputs change it."""
        for tensor, of in zip(self.tensors, self.values):
            if of is value and of.fixed and tensor.numel() == 1 and not tensor.is_meta:
                return tensor.item()
        return None

    def size(self, number: Value) -> Any:
        """The size that came as a tensor of one element; None if it came otherwise."""
        for tensor, value in zip(self.tensors, self.values):
            if value is number and tensor.numel() == 1:
                found = int(tensor)
                return found if value.fixed else dims.dim(Poly.of(Atom("item", (value,), found)))
        return None

    def baked(self) -> dict[Asked, None]:
        """The sizes that may vary among the arguments and the shapes of their tensors."""
        sizes: list[Any] = [n for value in self.values for n in value.shape or ()]
        waiting: list[Any] = [self.args, self.kwargs]
        while waiting:
            x = waiting.pop()
            if isinstance(x, (dims.Dim, dims.DimFloat)):
                sizes.append(x)
            elif isinstance(x, slice):
                waiting += x.start, x.stop, x.step
            elif isinstance(x, (list, tuple, dict)):
                waiting += x.values() if isinstance(x, dict) else x
        return dims.baked(sizes)


@dataclasses.dataclass(slots=True)
class Numbers:
    """The numbers in tensors of one element among the arguments of a call, kept without the tensors."""

    each: list[tuple[Value, Any]]

    @staticmethod
    def among(given: Arguments, but: Value) -> Numbers:
        """The whole numbers among the arguments of a call, except for one value."""
        whole = [
            value
            for tensor, value in zip(given.tensors, given.values)
            if value is not but and tensor.numel() == 1 and not tensor.is_meta
            and not (tensor.is_floating_point() or tensor.is_complex())
        ]  # fmt: skip
        if not whole:
            return _NONE
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return Numbers([(value, given.size(value)) for value in whole])

    def size(self, value: Value) -> Any:
        return next((size for of, size in self.each if of is value), None)


_NONE = Numbers([])


@dataclasses.dataclass(slots=True)
class Spec:
    """The dtype and the recorded sizes of a real tensor, for a converter."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    ndim = rank


def describe(x) -> Any:
    """The structure of a result, with a Spec in place of each tensor."""
    if isinstance(x, torch.Tensor):
        return Spec(torch.float32 if x.is_quantized else x.dtype, tuple(x.shape))
    if isinstance(x, (list, tuple)):
        if hasattr(x, "_fields"):
            return tuple(map(describe, x))
        return tuple(describe(v) for v in x)
    if isinstance(x, dict):
        return {k: describe(v) for k, v in x.items()}
    return x


def retyped(spec, dtype):
    """A copy of a description with another dtype."""
    if isinstance(spec, Spec):
        return Spec(dtype, spec.shape)
    if isinstance(spec, tuple):
        return tuple(retyped(s, dtype) for s in spec)
    return spec


class Replayed:
    """The call that a converter sees when a view is written again for other contents."""

    __slots__ = ("assigned", "numbers", "spec")
    replayed = True

    def __init__(self, spec: Any, numbers: Numbers) -> None:
        self.spec, self.numbers = spec, numbers
        self.assigned: list = []

    def result(self) -> Any:
        return self.spec

    def assign(self, x: Value, value: Value) -> None:
        raise ConverterError("a view was said to write to its base")


@dataclasses.dataclass(slots=True, eq=False)
class Step:
    """The call that made a view of another tensor, with the argument and the output that they were."""

    choice: Any
    args: tuple
    kwargs: dict
    parent: Value
    output: tuple
    spec: Any
    fixed: bool  # nothing but the contents of the parent may differ at another run
    numbers: Numbers


def substitute(x, old: Value, new: Value):
    """Arguments with one value replaced by another."""
    if x is old:
        return new
    if type(x) in (list, tuple):
        return type(x)([substitute(v, old, new) for v in x])
    if isinstance(x, dict):
        return {k: substitute(v, old, new) for k, v in x.items()}
    return x


def pick(tree, path: tuple):
    """The part of a result at a path, as `tensors_in` gives it."""
    for key in path:
        container = containers.of(tree)
        if container is not None:
            tree, _ = container.flatten(tree)
        fields = dataclasses.is_dataclass(tree) and not isinstance(tree, (type, dict))
        tree = getattr(tree, key) if fields else tree[key]
    return tree


def tensors_in(tree, path: tuple = ()):
    """Yield the path and the tensor for every tensor in a result."""
    if isinstance(tree, torch.Tensor):
        yield path, tree
    elif isinstance(tree, (list, tuple)):
        for i, v in enumerate(tree):
            yield from tensors_in(v, (*path, i))
    elif isinstance(tree, dict):
        for k, v in tree.items():
            yield from tensors_in(v, (*path, k))
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for f in dataclasses.fields(tree):
            yield from tensors_in(getattr(tree, f.name), (*path, f.name))
    elif (container := containers.of(tree)) is not None:
        yield from tensors_in(container.flatten(tree)[0], path)


def has_complex(args: Any, kwargs: Any) -> bool:
    """Return True if a tensor of complex numbers is among the arguments."""
    return any(tensor.is_complex() for _, tensor in tensors_in([args, kwargs]))

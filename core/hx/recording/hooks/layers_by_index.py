"""A layer that a value picks: `self.experts[e]`, with `e` read from a tensor.

Python asks for a number there, and a file would always use the layer of the recording. If all
layers of the list differ only in their numbers, the model gets one more of their kind: each of its
weights is selected by `e` from those of all layers, and in the recording it holds the selected
numbers. In the file the weights of all layers are stacked.
"""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ...budget import BUDGET
from ...graph.op import Op
from ...ir.sizes import dims, size_lists
from ...ir.sizes.departures import leaving
from ...ir.value import Constant, Value
from ...torchworld.state.remembered_items import SIMPLE
from ...weights import contents
from ..memory.tensor_values import value_of
from ..recording import Recording

_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_NUMBERS = {int: torch.int64, float: torch.float64}
_COMPARED = SIMPLE | {set, frozenset, torch.Size}


def hooks(recording: Recording) -> dict[Any, Callable]:
    """The handlers of plain Python functions, by function."""

    def layer(original, args, kwargs):
        found = None
        if len(args) == 2 and may_pick(args[1]):
            found = one_of(recording, list(args[0]._modules.values()), args[1])
            _tell(found, *args)
        return original(*args, **kwargs) if found is None else found

    def weight(original, args, kwargs):
        found = None
        if len(args) == 2 and may_pick(args[1]):
            listed = [original(args[0], place) for place in range(len(args[0]))]
            found = one_of(recording, listed, args[1])
            _tell(found, *args)
        return original(*args, **kwargs) if found is None else found

    found = {}
    for kind, handler in (
        (nn.ModuleList, layer),
        (nn.Sequential, layer),
        (nn.ParameterList, weight),
    ):
        function = vars(kind)["__getitem__"]
        if isinstance(function, types.FunctionType):
            found[function] = handler
    return found


def _tell(found: Any, container: Any, index: Any) -> None:
    """Report a size that picks for good; a tensor is reported where its number is read."""
    if found is None and type(index) is dims.Dim:
        told = f"item {index.poly} of a {type(container).__name__}"
        leaving("index", told, dims.asked(int, index))


def may_pick(index: Any) -> bool:
    """Return True for a number that may differ in another run."""
    if type(index) is dims.Dim:
        return dims.is_dynamic(index)
    return isinstance(index, torch.Tensor) and index.dtype in _WHOLE and index.numel() == 1


def from_list(recording: Recording, container: Sequence[Any], index: Any) -> Any:
    """The item that a size or a tensor picks of a plain list of modules, or of numbers."""
    if not container or not may_pick(index):
        return None
    if isinstance(container[0], nn.Module):
        return one_of(recording, container, index)
    return _number(recording, container, index) if type(index) is dims.Dim else None


def _number(recording: Recording, numbers: Sequence[Any], index: dims.Dim) -> Any:
    """The plain number that a size, or the number of a round, picks."""
    kind = _NUMBERS.get(type(numbers[0]))
    place, many = dims.plain(index), len(numbers)
    if (
        kind is None
        or recording.running.busy
        or not -many <= place < many
        or many > BUDGET.elements.table
    ):
        return None
    if len(set(map(type, numbers))) > 1 or type(numbers) not in (list, tuple):
        return None
    op = Op(recording.builder)
    return size_lists.number(
        op.Gather(op.constant([*numbers], kind), index, axis=0), numbers[place]
    )


def one_of(recording: Recording, things: Sequence[Any], index: Any) -> Any:
    """The item that a value picks of modules, or parameters, that are alike.

    None if they differ, or if the value is the same in every run.
    """
    if recording.running.busy or len(things) < 2:
        return None
    builder = recording.builder
    busy, outer = recording.running.busy, builder.origin
    nodes, sizes = len(builder.nodes), builder.sizes.mark()
    recording.running.busy, builder.origin = (
        True,
        recording.position.origin("a layer that a value picks", "hx"),
    )
    try:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            place = dims.plain(index) if type(index) is dims.Dim else int(index)
            if not -len(things) <= place < len(things):
                return None  # the model's own error
            return _Pick(recording, index, place)(things)
    except _Unlike:
        del builder.nodes[nodes:]
        builder.sizes.forget(sizes)
        return None
    finally:
        recording.running.busy, builder.origin = busy, outer


class _Unlike(Exception):
    """Raised for layers that differ in more than their numbers."""


class _Pick:
    def __init__(self, recording: Recording, index: Any, place: int) -> None:
        self._recording, self._place = recording, place
        self._made: dict[tuple[int, ...], Any] = {}  # by the ids of what it is picked from
        self._op = op = Op(recording.builder)
        if type(index) is dims.Dim:
            self._by = recording.builder.number(index, torch.int64)
            return
        value = value_of(recording, index)
        if value.fixed:
            raise _Unlike
        self._by = op.cast(op.Reshape(value, []) if value.shape else value, torch.int64)

    def __call__(self, things: Sequence[Any]) -> Any:
        here, key = things[self._place], tuple(map(id, things))
        kind = type(here)
        if len(set(key)) == 1:
            return here
        if any(type(thing) is not kind for thing in things):
            raise _Unlike
        if key in self._made:
            return self._made[key]
        if kind in (torch.Tensor, nn.Parameter):
            self._made[key] = made = self._tensor(things)
            return made
        if isinstance(here, nn.Module) and not isinstance(here, torch.jit.ScriptModule):
            self._made[key] = made = object.__new__(kind)
            vars(made).update(self._table(list(map(vars, things))))
            return made
        if kind in (dict, OrderedDict):
            return self._table(things)
        if kind in (list, tuple) and len(set(map(len, things))) == 1:
            return kind([self(each) for each in zip(*things)])
        # A weak reference is kept by who looks whether it has changed: as it is, it has.
        if kind is weakref.ref or (kind in _COMPARED and all(here == thing for thing in things)):
            return here
        raise _Unlike

    def _table(self, tables: Sequence[dict]) -> dict:
        names = list(tables[0])
        if any(list(table) != names for table in tables):
            raise _Unlike
        return type(tables[0])((n, self([table[n] for table in tables])) for n in names)

    def _tensor(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        value = self._op.Gather(self._stacked(tensors), self._by, axis=0)
        # Memory of its own: the weight itself is still the one that it is.
        picked = tensors[self._place].detach().clone()
        self._recording.memory.live.bind(picked, value)
        return picked

    def _stacked(self, tensors: Sequence[torch.Tensor]) -> Value:
        """Stack all of them along a first axis, without a copy; all readers share the value."""
        recording = self._recording
        key = tuple(map(id, tensors))
        if key not in recording.model.stacked_weights:
            first = tensors[0]
            if any((t.shape, t.dtype) != (first.shape, first.dtype) for t in tensors):
                raise _Unlike
            values = [value_of(recording, tensor) for tensor in tensors]
            of = contents.Stacked(tuple(map(_content, tensors, values)))
            empty = torch.empty(of.shape, dtype=of.dtype, device="meta")
            name = _name([value.name for value in values])
            recording.model.stacked_weights[key] = recording.builder.absent(empty, of, name)
        return recording.model.stacked_weights[key]


def _content(tensor: torch.Tensor, value: Value) -> contents.Content:
    plain = tensor.layout is torch.strided and not tensor.is_complex() and not tensor.is_quantized
    found = contents.of(value) if plain and isinstance(value, Constant) else None
    if found is None:
        raise _Unlike
    return found


def _name(names: list[str]) -> str:
    """Join the names experts.0.up.weight, experts.1.up.weight, ... to experts.up.weight."""
    rows = [name.split(".") for name in names]
    if "" in names or len({len(row) for row in rows}) > 1:
        return ""
    return ".".join(column[0] for column in zip(*rows) if len(set(column)) == 1)

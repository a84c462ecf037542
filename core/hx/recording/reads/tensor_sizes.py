"""Answers to questions about a tensor, but not its elements: sizes, strides, the device."""

from __future__ import annotations

from typing import Any

import torch

from ... import torch_facts
from ...ir.sizes import dims
from ...tensor_bytes import memory_order
from ...torchworld.modes.meta_tensors import device_answer
from ..calls.real_calls import call_unrecorded
from ..memory.tensor_values import is_another, value_of
from ..recording import Recording
from .note_escapes import note_escape


def open_shape(recording: Recording, tensor: Any) -> tuple | None:
    """The value's own sizes, when some of them may vary."""
    if not isinstance(tensor, torch.Tensor):
        return None
    if recording.memory.live.find(tensor) is None and not is_another(recording, tensor):
        return None
    shape = value_of(recording, tensor).shape
    if shape is None or not any(map(dims.is_dynamic, shape)):
        return None
    recording.running.told = True
    return shape


def shape(recording, key, func, args, kwargs, door):
    sizes = open_shape(recording, args[0])
    return call_unrecorded(recording, func, args, kwargs) if sizes is None else torch.Size(sizes)


def size(recording, key, func, args, kwargs, door):
    sizes = open_shape(recording, args[0])
    if sizes is None:
        return call_unrecorded(recording, func, args, kwargs)
    axis = args[1] if len(args) > 1 else kwargs.get("dim")
    return torch.Size(sizes) if axis is None else sizes[axis]


def numel(recording, key, func, args, kwargs, door):
    sizes = open_shape(recording, args[0] if args else kwargs.get("input"))
    if sizes is None:
        return call_unrecorded(recording, func, args, kwargs)
    total: Any = 1
    for n in sizes:
        total = n * total
    return total


def nbytes(recording, key, func, args, kwargs, door):
    if open_shape(recording, args[0]) is None:
        return call_unrecorded(recording, func, args, kwargs)
    return args[0].dtype.itemsize * numel(recording, key, func, args, kwargs, door)


def length(recording, key, func, args, kwargs, door):
    """Note a size that leaves through Python's own len(), which takes plain ints only."""
    sizes = open_shape(recording, args[0])
    if sizes and isinstance(sizes[0], dims.Dim):
        told = f"len of a tensor whose first size is {sizes[0].poly}"
        note_escape(recording, "len", told, asked=[dims.asked(int, sizes[0])])
    return call_unrecorded(recording, func, args, kwargs)


def layout(recording, key, func, args, kwargs, door):
    """Compute strides from the sizes if no memory is skipped, or else as recorded."""
    sizes = open_shape(recording, args[0])
    if sizes is None and not _begins_elsewhere(recording, args[0]):
        return call_unrecorded(recording, func, args, kwargs)
    note_escape(
        recording,
        "layout",
        f"{torch_facts.public_name(func, key).rpartition('.')[2]} of a resizable tensor",
    )
    order = None if sizes is None else memory_order(args[0])
    if sizes is None or key not in ("aten::stride", "aten::sym_stride") or order is None:
        return call_unrecorded(recording, func, args, kwargs)
    strides: list[Any] = list(order)
    step: Any = 1
    for axis in reversed(order):
        strides[axis], step = step, sizes[axis] * step
    axis = args[1] if len(args) > 1 else kwargs.get("dim")
    return tuple(strides) if axis is None else strides[axis]


def _begins_elsewhere(recording: Recording, tensor: torch.Tensor) -> bool:
    """Return True for a part of a tensor whose sizes may vary: it may begin at another place."""
    entry = recording.memory.live.find(tensor)
    whole = None if entry is None else entry.family.root.shape
    return bool(whole and any(map(dims.is_dynamic, whole)) and tensor.storage_offset())


def device(recording, key, func, args, kwargs, door):
    """Answer with the device, which is the same for tensors with contents elsewhere."""
    if recording.model.blend is not None:
        found = device_answer(func, args)
        if found is not None:
            return found
    return call_unrecorded(recording, func, args, kwargs)

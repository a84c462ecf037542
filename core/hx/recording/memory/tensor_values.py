"""The value that a tensor of the model stands for."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ... import dtypes
from ...errors import Unaccounted
from ...graph import complex_pairs
from ...graph.builder import Builder
from ...graph.op import Op
from ...ir.sizes import size_lists
from ...ir.value import Constant, Value
from ...tensor_bytes import storage_key
from ..calls import compiled_calls
from ..calls.missing_converters import note_missing_compiled
from ..reads.note_escapes import note_escape, take_back
from ..recording import Recording
from . import sparse_tensors, unrecorded_tensors
from .constants import constant_of
from .exposed_memory import expose, require_unwritten, tensor_at
from .live_tensors import COUNTED_LATER, Entry, count
from .possible_copies import note_doubt
from .tensor_holders import was_held
from .view_families import read_family


def value_of(recording: Recording, tensor: torch.Tensor) -> Value:
    """The value that a real tensor stands for."""
    memory = recording.memory
    entry = memory.live.entries.get(id(tensor))
    if entry is not None and entry() is not tensor:
        entry = None
    if memory.exposed:
        require_unwritten(recording, tensor)
    if entry is None:
        entry = entry_of(recording, tensor)
    else:
        if entry.version == COUNTED_LATER:
            count(entry, tensor)  # before this call writes once more
        if memory.doubted:
            note_doubt(recording, entry)
    if entry.generation != entry.family.generation:
        return memory.live.read(entry, functools.partial(read_family, recording))
    return entry.value


def entry_of(recording: Recording, tensor: torch.Tensor) -> Entry:
    """The entry of a tensor that no recorded call returned, if its origin is known."""
    live = recording.memory.live
    entry = _new_entry(recording, tensor)
    if live.around is not None:
        live.around.add(entry.family)
    return entry


def _new_entry(recording: Recording, tensor: torch.Tensor) -> Entry:
    """The entry of a tensor that is met for the first time, if its origin is known."""
    name = recording.model.names.get(id(tensor))
    if tensor.is_nested:
        sparse_tensors.require_known("the model holds or makes", tensor, recording.position.where())
    storage = storage_key(tensor)
    family = recording.memory.live.families.get(storage)
    if family is not None and not isinstance(family.root, Constant) and family.alive():
        for member in family.alive():
            other = member()
            if other is not None and unrecorded_tensors.shows_the_same(other, tensor):
                # Another object for it, as nn.Parameter(x) makes.
                value_of(recording, other)
                recording.memory.live.alias(tensor, member)
                return recording.memory.live.entries[id(tensor)]
        raise Unaccounted(
            f"a tensor of shape {list(tensor.shape)} shares memory with a recorded one, "
            "and no recorded call made it",
            where=recording.position.where(),
            why="code that hx cannot see made a view of a traced tensor",
            hint="make the view with a torch function inside forward",
        )
    value = tensor_of_numpy(recording, tensor) if name is None else None
    if value is not None:
        return recording.memory.live.bind(tensor, value, storage=storage)
    if name is None and not was_held(recording.model, recording.position.frames.user(), tensor):
        if (
            not unrecorded_tensors.from_outside(tensor)
            or not unrecorded_tensors.made_of_numpys(recording)
        ) and note_missing_compiled(recording, tensor):
            return recording.memory.live.entries[id(tensor)]
        if not unrecorded_tensors.from_outside(tensor):
            raise unrecorded_tensors.from_nowhere(
                recording,
                tensor,
                why="no recorded call returned it, and it is no parameter, buffer or constant "
                "that was there before: compiled code or another thread may have computed it "
                "from the inputs",
            )
        if compiled_calls.calls(
            compiled_calls.running(recording.position, recording.model)
        ) and not unrecorded_tensors.made_of_numpys(recording):
            raise unrecorded_tensors.from_nowhere(recording, tensor, why="")
        unrecorded_tensors.tell_outside(recording, tensor)
    made = constant_of(recording, tensor, name or "", storage)
    return recording.memory.live.bind(tensor, made, storage=storage)


def tensor_of_numpy(recording: Recording, tensor: torch.Tensor) -> Value | None:
    """The value of a tensor made from an array, if the array is another tensor's memory."""
    if not recording.memory.numpy_tensors or not unrecorded_tensors.from_outside(tensor):
        return None
    strides = tuple(step * tensor.element_size() for step in tensor.stride())
    name = dtypes.name(tensor.dtype)
    known = tensor_at(recording, tensor.data_ptr(), tuple(tensor.shape), strides, name)
    return None if known is None else value_of(recording, known)


def _array_value(recording: Recording, array: Any) -> tuple[torch.Tensor | None, Value]:
    """The value of an array, and the tensor whose memory it is, if it is one's."""
    if recording.memory.numpy_tensors:
        address = array.__array_interface__["data"][0]
        known = tensor_at(recording, address, array.shape, array.strides, str(array.dtype))
        if known is not None:
            return known, value_of(recording, known)
    return None, constant_of(recording, torch.tensor(array))


def array_value(recording: Recording, array: Any) -> tuple[torch.Tensor | None, Value]:
    """The value of a NumPy array among arguments, and the tensor whose memory it is, if any."""
    taken = getattr(array, "taken", None)
    if taken is not None:
        take_back(recording, "item", taken)
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return _array_value(recording, array)


def list_value(recording: Recording, items: size_lists.Whole, whole: bool) -> Value | None:
    """The value of a list that a call takes as one tensor; notes one that is used otherwise."""
    value = None
    if whole and items.formula is not None and items.same():
        if items.left is not None:
            take_back(recording, items.left[0], items.taken)
        value = items.formula(Op(recording.builder))
    elif items.left is not None:
        kind, detail, asked = items.left
        note_escape(recording, kind, detail, asked=asked)
    return value


def output_value(builder: Builder, x: Any) -> Value:
    """The value of a result of the model: numbers and sizes become scalars."""
    if isinstance(x, Value):
        return complex_pairs.pair(Op(builder), x) if x.dtype in dtypes.COMPLEX else x
    if isinstance(x, bool):
        return builder.number(x, torch.bool)
    return builder.number(x, torch.int64 if isinstance(x, int) else torch.float32)


def hand_to_numpy(recording: Recording, tensor: torch.Tensor) -> None:
    """Note an array over a tensor's memory: given back to PyTorch unchanged, it is that tensor."""
    if tensor.device.type == "cpu" and not value_of(recording, tensor).fixed:
        expose(recording, tensor, "numpy")
        recording.memory.numpy_tensors.append(
            tensor
        )  # itself: of x.detach() there may be no other name


def is_another(recording: Recording, tensor: torch.Tensor) -> bool:
    """Return True for another object for a tensor of the recording, as `as_subclass` makes."""
    family = recording.memory.live.family_of(tensor)
    if family is None or isinstance(family.root, Constant):
        return False
    members = (member() for member in family.alive())
    return any(
        other is not None and unrecorded_tensors.shows_the_same(other, tensor) for other in members
    )

"""Folding of calls that depend on no input: they ran, and their results are constants."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ... import torch_facts
from ...graph.model_parts import EARLY_WEIGHT_BYTES
from ...graph.op import Op
from ...ir.value import Constant
from ...tensor_bytes import storage_key
from ..memory.constants import constant_of, frozen_constant
from ..memory.live_tensors import Entry, changed
from ..memory.replayed_writes import Declined
from ..memory.tensor_values import value_of
from ..memory.tensor_writes import write
from ..memory.view_families import is_view_in_memory, parent_of, replay, step_of
from ..recording import Recording
from .arguments import Arguments, tensors_in
from .real_calls import run_unrecorded


def fold(recording: Recording, key, choice, given: Arguments, run, written=()) -> Any:
    """The result of a call that depends on no input, bound to constants."""
    result = run_unrecorded(run)
    if torch_facts.out_of_place(key) in torch_facts.CHANGES_GEOMETRY:
        entry = recording.memory.live.find(given.tensors[0])
        if entry is not None:
            recording.memory.live.reform(entry, frozen_constant(recording, given.tensors[0]), None)
    for tensor in written:
        # An operator's write is not counted yet: it has to be told.
        entry = recording.memory.live.find(tensor)
        if entry is not None:
            constants_written(recording, entry, tensor)
            recording.memory.written_families.append(entry.family)
    bind_constants(recording, result, given, choice)
    return result


def constants_written(recording: Recording, entry: Entry, tensor: torch.Tensor) -> None:
    if entry.family.root.fixed:
        recording.memory.live.refresh(entry, functools.partial(frozen_constant, recording))
    else:  # a corner of memory that holds traced values elsewhere
        write(recording, tensor, frozen_constant(recording, tensor))


def bind_constants(recording: Recording, result, given: Arguments, choice=None) -> None:
    """Bind the results of a call of constants, and what it wrote to, to constants."""
    for tensor in given.tensors:
        entry = recording.memory.live.find(tensor)
        if entry is not None and changed(entry, tensor):
            constants_written(recording, entry, tensor)
    for path, tensor in tensors_in(result):
        if recording.memory.live.find(tensor) is not None:
            continue
        storage = storage_key(tensor)
        parent = parent_of(recording, storage, given)
        step = None
        if parent is not None and choice is not None:
            step = step_of(choice, given, parent, path, result)
        if step is not None and parent is not None and not parent.value.is_constant:
            # A constant-looking view of memory that holds traced values.
            whole: Any = parent()
            try:
                value = replay(recording, step, value_of(recording, whole))
            except Declined:
                if is_view_in_memory(recording, tensor):
                    continue
                raise
        else:
            again = _weight_again(given, tensor) if parent is None else None
            value = constant_of(recording, tensor) if again is None else again
            if not given.tensors and _begins_or_counts(recording, tensor):
                value = Op(recording.builder).Identity(value)
                value.fixed = False
        parent = parent if step is not None else None
        recording.memory.live.bind(tensor, value, parent, step, storage)


def _begins_or_counts(recording: Recording, tensor: torch.Tensor) -> bool:
    """Return True for a possible state before the first round, or number of a round, as a tensor."""
    if tensor.is_floating_point():
        return recording.switches.unfolded
    return recording.switches.counts and tensor.numel() == 1 and tensor.dtype is not torch.bool


_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of a number


def _weight_again(given: Arguments, made: torch.Tensor) -> Constant | None:
    """Return the weight that a call returned bit for bit, as a lookup of all rows of a table does.

    It is neither held nor stored a second time.
    """
    if not _has_plain_bits(made) or made.numel() * made.element_size() < EARLY_WEIGHT_BYTES:
        return None
    bits = _WHOLE[made.element_size()]
    for value, tensor in zip(given.values, given.tensors):
        if (
            isinstance(value, Constant)
            and value.name
            and _has_plain_bits(tensor)
            and tensor.dtype is made.dtype
            and tensor.shape == made.shape
            and tensor.device == made.device
            and torch.equal(tensor.detach().view(bits), made.detach().view(bits))
        ):
            return value
    return None


def _has_plain_bits(tensor: torch.Tensor) -> bool:
    """Return True if the memory of a tensor is its numbers, in some order, and can be read."""
    if tensor.is_nested or tensor.layout is not torch.strided or tensor.is_meta:
        return False
    other = tensor.is_quantized or tensor.is_conj() or tensor.is_neg()
    return not other and tensor.element_size() in _WHOLE

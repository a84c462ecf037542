"""Calls that depend on no input: they ran, and what they gave is a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..graph.op import Op
from ..saving.wire import LARGE
from ..tensors.liveness import Entry, changed, storage_key
from ..tensors.values import Constant
from ..tensors.views import is_view_in_memory, parent_of, replay, step_of, write
from ..tensors.writing import Declined
from . import known
from .call import Arguments, quietly, tensors_in

if TYPE_CHECKING:
    from .recording import Recording


def fold(recording: Recording, key, choice, given: Arguments, run, written=()) -> Any:
    """Nothing in it depends on an input: having run it is enough."""
    result = quietly(run)
    if known.in_place_base(key) in known.TURNS:
        entry = recording.live.find(given.tensors[0])
        if entry is not None:
            recording.live.reform(entry, recording.written_constant(given.tensors[0]), None)
    for tensor in written:
        # An operator's write is not counted yet: it has to be told.
        entry = recording.live.find(tensor)
        if entry is not None:
            constants_written(recording, entry, tensor)
            recording.written.append(entry.family)
    bind_constants(recording, result, given, choice)
    return result


def constants_written(recording: Recording, entry: Entry, tensor: torch.Tensor) -> None:
    if entry.family.root.fixed:
        recording.live.refresh(entry, recording.written_constant)
    else:  # a corner of memory that holds traced values elsewhere
        write(recording, tensor, recording.written_constant(tensor))


def bind_constants(recording: Recording, result, given: Arguments, choice=None) -> None:
    """What a call of constants returned is a constant, and so is what it wrote."""
    for tensor in given.tensors:
        entry = recording.live.find(tensor)
        if entry is not None and changed(entry, tensor):
            constants_written(recording, entry, tensor)
    for path, tensor in tensors_in(result):
        if recording.live.find(tensor) is not None:
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
                value = replay(recording, step, recording.value_of(whole))
            except Declined:
                if is_view_in_memory(recording, tensor):
                    continue
                raise
        else:
            again = _weight_again(given, tensor) if parent is None else None
            value = recording.constant(tensor) if again is None else again
            if not given.tensors and _begins_or_counts(recording, tensor):
                value = Op(recording.builder).Identity(value)
                value.fixed = False
        parent = parent if step is not None else None
        recording.live.bind(tensor, value, parent, step, storage)


def _begins_or_counts(recording: Recording, tensor: torch.Tensor) -> bool:
    """Whether it may be a state before the first round, or the number of a round as a tensor."""
    if tensor.is_floating_point():
        return recording.unfolded
    return recording.counts and tensor.numel() == 1 and tensor.dtype is not torch.bool


_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of a number


def _weight_again(given: Arguments, made: torch.Tensor) -> Constant | None:
    """The weight that a call gave back bit by bit, as looking up all rows of a table does.

    It is not held, nor stored, a second time.
    """
    if not _has_plain_bits(made) or made.numel() * made.element_size() < LARGE:
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
    """Whether its memory is its numbers, one behind the other in some order, and can be read."""
    if tensor.is_nested or tensor.layout is not torch.strided or tensor.is_meta:
        return False
    other = tensor.is_quantized or tensor.is_conj() or tensor.is_neg()
    return not other and tensor.element_size() in _WHOLE

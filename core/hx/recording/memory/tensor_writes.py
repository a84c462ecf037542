"""Writes of the model to a tensor, and what they do to the tensors that share its memory."""

from __future__ import annotations

import functools

import torch

from ...ir.value import Value
from ..recording import Recording
from .possible_copies import doubt_others
from .replayed_writes import write_back
from .tensor_values import entry_of
from .view_families import replay


def write(recording: Recording, tensor: torch.Tensor, value: Value) -> None:
    """Make a tensor hold another value from now on, and update whatever shares its memory."""
    memory = recording.memory
    live = memory.live
    entry = live.find(tensor)
    if entry is None:
        entry = entry_of(recording, tensor)
    memory.written_families.append(entry.family)
    doubt_others(recording, entry)
    if any(type(n) is int and n == 0 for n in value.shape or ()):  # there is nothing in it
        live.write(entry, value, lambda f, e, v: f.root)
    elif not any(m is not entry for m in entry.family.alive()):
        live.write(entry, value, lambda f, e, v: v)
    else:
        again = functools.partial(replay, recording)
        live.write(entry, value, lambda f, e, v: write_back(recording.builder, f, e, v, again))

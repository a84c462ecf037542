"""Notes of calls without a converter: the recording goes on, so that one run finds them all."""

from __future__ import annotations

import torch

from ...errors import Where
from ...findings import Missing
from ...graph import complex_pairs
from ..memory import sparse_tensors
from ..recording import Recording
from . import compiled_calls
from .arguments import Arguments


def note_missing(recording: Recording, target: str, given: Arguments, detail: str) -> None:
    """Note that no converter answers a call of `target`."""
    sparse_tensors.require_answered(target, given.tensors, recording.position.where())
    if given.complex:
        detail = ", ".join(filter(None, [detail, "for complex numbers"]))
    found = recording.findings.missing.get(target)
    if found is None:
        found = recording.findings.missing[target] = Missing(target, detail)
        if (choice := recording.tallies.decliners.get(target)) is not None:
            found.declined = f"{choice.pack}, {choice.where}"
    found.add(
        recording.position.where(), [(t.dtype, tuple(t.shape)) for t in given.tensors], detail
    )


def bind_stand_in(recording: Recording, tensor: torch.Tensor) -> None:
    """Bind a tensor to a stand-in, which is never written to a file."""
    sparse_tensors.require_known("the call gives", tensor, recording.position.where())
    recording.memory.live.bind(
        tensor, complex_pairs.stand_in(recording.builder, tensor.dtype, tensor.shape)
    )


def note_missing_compiled(recording: Recording, tensor: torch.Tensor) -> bool:
    """Note compiled code that may have made a tensor, if a converter could be given to it.

    Any of the calls up to here may have made it, so all of them are noted.
    """
    found = [
        x
        for x in compiled_calls.running_calls(recording.position, recording.model)
        if not recording.choices.named(x.target)
    ]
    if not found or not all(one.has_name for one in found):
        return False
    here = recording.position.where()
    for one in found:
        where = Where(one.file, one.line, here.scope, here.function)
        missing = recording.findings.missing.setdefault(one.target, Missing(one.target))
        if where not in missing.places:
            missing.add(where, [], f"{one.name} is compiled code")
    bind_stand_in(recording, tensor)
    return True

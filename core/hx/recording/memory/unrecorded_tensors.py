"""Tensors that no recorded call returned, and where they come from, if that can be known.

A parameter, a buffer, a global, a table in a closure existed before the recording, and is a
constant. So is memory of numpy's or of a file, which is noted. Anything else may be computed from
the inputs, by compiled code or in another thread, and stops the export.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...errors import Unaccounted, Where
from ...findings import CHECKED, Finding
from ...ir.sizes import dims
from ...tensor_bytes import geometry
from ..calls import compiled_calls
from ..calls.arguments import tensors_in
from ..calls.missing_converters import note_missing_compiled
from ..reads.note_escapes import note_escape
from ..recording import Recording

_WRAPS = {"from_numpy", "frombuffer", "from_dlpack", "as_tensor", "asarray", "tensor"}


def made_of_numpys(recording: Recording) -> bool:
    """Return True if the function that runs makes tensors over memory of its own."""
    code = compiled_calls.code_of(compiled_calls.running(recording.position, recording.model))
    return code is not None and not _WRAPS.isdisjoint(code.co_names)


def from_nowhere(recording: Recording, tensor: torch.Tensor, why: str) -> Unaccounted:
    elsewhere = in_thread(recording)
    if elsewhere is not None:
        return Unaccounted(
            f"a tensor of shape {list(tensor.shape)} was computed in another thread, which a "
            "recording does not see",
            where=elsewhere,
            hint="compute it in the thread that calls the model",
        )
    parts = compiled_calls.message_parts(
        compiled_calls.running_calls(recording.position, recording.model),
        recording.position.where(),
    )
    what = f"a tensor of shape {list(tensor.shape)} came from code that hx could not see"
    return Unaccounted(what, **{"why": why, **parts})


def in_thread(recording: Recording) -> Where | None:
    """The line where another thread used tensors of the recording, if one did."""
    return next((e.where for e in recording.findings.escapes.values() if e.kind == "thread"), None)


def tell_outside(recording: Recording, tensor: torch.Tensor) -> None:
    """Note a tensor over memory of numpy's: hx did not see how its contents were computed.

    A value that left the graph before may have come back here.
    """
    if not from_outside(tensor):
        return
    if recording.switches.dry:
        recording.memory.outside_tensors.append(
            (recording.position.where(), tensor.detach().clone())
        )
    what = (
        f"an array of {list(tensor.shape)} in memory that PyTorch does not own: the graph keeps "
        "what it holds now"
    )
    if recording.findings.escapes or recording.builder.sizes.named:
        note_escape(recording, "from_numpy", what)
    else:
        where = recording.position.where()
        found = Finding(CHECKED, f"from_numpy at {where}: {what}", where)
        recording.findings.messages.append(found)


# Compiled code: its calls of operators arrive outside of any torch function.

# Operators by which it allocates memory: its own writes there are not seen.
_ALLOCATES = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty",
                 "new_empty_strided")
)  # fmt: skip


def from_compiled(recording: Recording, key: Any, func: Any, args: tuple, result: Any) -> None:
    """Handle an operator that compiled code called."""
    if key in _ALLOCATES:
        for _, tensor in tensors_in(result):
            family = recording.memory.live.family_of(tensor)
            if family is not None and tensor.numel():
                family.unfilled = recording.memory.unfilled = True
        return
    recording.findings.operator_lines.add(recording.position.where())
    if recording.builder.sizes.named and "SymInt[" in str(getattr(func, "_schema", "")):
        found = [recording.memory.live.find(t) for _, t in tensors_in(list(args))]
        values = [entry.value for entry in found if entry is not None]
        if any(value.dynamic for value in values):
            how = f"{key} is called by compiled code, with sizes as numbers"
            sizes = dims.baked(n for value in values for n in value.shape or ())
            note_escape(recording, "baked", how, asked=sizes)


def require_filled(
    recording: Recording, tensors: Iterable[torch.Tensor], written: Iterable[torch.Tensor] = ()
) -> None:
    """Raise if a tensor is read whose memory no recorded call has written."""
    spared = set(map(id, written))
    for tensor in tensors:
        family = recording.memory.live.family_of(tensor)
        if family is not None and family.unfilled and id(tensor) not in spared:
            if note_missing_compiled(recording, tensor):
                family.unfilled = False
                continue
            parts = compiled_calls.message_parts(
                compiled_calls.running_calls(recording.position, recording.model),
                recording.position.where(),
            )
            why = "compiled code made it, or it holds whatever the memory held before"
            raise Unaccounted(
                f"a tensor of shape {list(tensor.shape)} was read, and no recorded call wrote it",
                **{"why": why, **parts},
            )


def shows_the_same(member: torch.Tensor, tensor: torch.Tensor) -> bool:
    return (
        member.dtype == tensor.dtype
        and geometry(member) == geometry(tensor)
        and member.is_conj() == tensor.is_conj()
        and member.is_neg() == tensor.is_neg()
    )


def from_outside(tensor: torch.Tensor) -> bool:
    if tensor.layout != torch.strided or tensor.is_meta:
        return False
    return not tensor.untyped_storage().resizable()

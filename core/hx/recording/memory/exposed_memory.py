"""Memory whose address a model gave out: to NumPy, or to compiled code that may write there."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import torch

from ... import dtypes
from ...errors import Unaccounted, Where
from ...tensor_bytes import is_freed, same_bits, storage_key
from ..calls import compiled_calls
from ..recording import Recording


@dataclasses.dataclass(frozen=True)
class Exposed:
    """A tensor whose address was given out, its contents at that time, and the user's line."""

    tensor: weakref.ref
    copy: torch.Tensor
    version: int
    where: Where
    how: str


def expose(recording: Recording, tensor: torch.Tensor, how: str) -> None:
    """Note that the address of a tensor's memory was given out: its receiver may write there."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        if tensor.is_meta or tensor.layout != torch.strided or is_freed(tensor):
            return
        copy = tensor.detach().clone()
        known = recording.memory.exposed.setdefault(storage_key(tensor), [])
        known.append(
            Exposed(weakref.ref(tensor), copy, tensor._version, recording.position.where(), how)
        )


def require_unwritten(recording: Recording, tensor: torch.Tensor) -> None:
    """Raise if a tensor was written to through an address that was given out.

    Reading memory asks PyTorch for it; a door that saw that would give out one more address.
    """
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        known = recording.memory.exposed.get(storage_key(tensor), [])
        for i, each in enumerate(list(known)):
            now = each.tensor()
            if now is None or is_freed(now):
                continue
            if now._version != each.version:  # by PyTorch itself, which is seen
                fresh = now.detach().clone()
                known[i] = dataclasses.replace(each, copy=fresh, version=now._version)
            elif not same_bits(each.copy, now):
                raise Unaccounted(
                    f"a tensor of shape {list(tensor.shape)} was written to, and no recorded call "
                    "did that",
                    **_writer(recording, each),
                )


def _writer(recording: Recording, each: Exposed) -> dict[str, Any]:
    """Return the parts of an error that describe the code that wrote, as far as known."""
    if each.how == "numpy":
        return {
            "where": recording.position.where(),
            "why": f"an array over its memory, made at {each.where}, was written to",
            "hint": "write to the tensor: the graph has what is done with torch",
        }
    parts = compiled_calls.message_parts(
        compiled_calls.running_calls(recording.position, recording.model), each.where
    )
    return {"why": f"whoever got its address by {each.how}() wrote there", **parts}


def tensor_at(
    recording: Recording, address: int, shape: tuple, strides: tuple, dtype: str
) -> torch.Tensor | None:
    """The tensor that was handed to NumPy and lies at this address in this form."""
    wanted = (address, shape, strides, dtype)
    if not address:
        return None  # a tensor without elements has no address
    for held in recording.memory.numpy_tensors:
        if not is_freed(held):
            steps = tuple(step * held.element_size() for step in held.stride())
            found = (held.data_ptr(), tuple(held.shape), steps, dtypes.name(held.dtype))
            if found == wanted:
                return held
    return None

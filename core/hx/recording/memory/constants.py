"""Constants over the memory of tensors, which the model may write to later."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch

from ...errors import Unsupported
from ...ir.value import Constant
from ...tensor_bytes import storage_key
from ..calls.arguments import tensors_in
from ..recording import Recording
from .sparse_tensors import require_unheld, sparse_constant


def constant_of(
    recording: Recording, tensor: torch.Tensor, name: str = "", storage: int | None = None
) -> Constant:
    """A constant over a tensor's memory; `storage` is the key of that, if the caller has it."""
    if tensor.is_meta:
        return _without_contents(recording, tensor, name)
    model = recording.model
    if model.blend is not None:
        model.blend.require([tensor], "a constant")
    if tensor.layout is not torch.strided or tensor.is_nested:
        return sparse_constant(recording, tensor, name)
    # Another object for the same memory: what is known of a tensor must not keep it alive.
    dequantized = tensor.is_quantized
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        if dequantized:
            tensor = tensor.dequantize()
        else:
            there = model.guard.same_memory(tensor) if name and model.guard is not None else None
            tensor = tensor.detach() if there is None else there
        made = recording.builder.constant(tensor, name)
    if not name and _is_corner(tensor):
        made.freeze()  # a view would keep all of the memory that it shows a corner of
    else:
        key = storage_key(tensor) if storage is None or dequantized else storage
        held = recording.memory.constants.setdefault(key, [])
        held.append(weakref.ref(made, held.remove))
    return made


def frozen_constant(recording: Recording, tensor: torch.Tensor) -> Constant:
    """A copy of a tensor's contents after a write; a buffer is restored when the recording ends."""
    made = constant_of(recording, tensor)
    made.freeze()
    return made


def freeze_before_write(recording: Recording, args: tuple, kwargs: Mapping[str, Any]) -> None:
    """Copy the contents that readers of a constant saw, before its memory changes."""
    written = [args[0]] if args else []
    written.append(kwargs.get("out"))
    guard = recording.model.guard
    for _, tensor in tensors_in(written):
        key = storage_key(tensor)
        require_unheld(recording, tensor, key)
        for held in list(recording.memory.constants.get(key, ())):
            constant = held()
            if constant is not None:
                constant.freeze()
        if guard is not None:
            guard.before_write(tensor)


def _without_contents(recording: Recording, tensor: torch.Tensor, name: str) -> Constant:
    """A constant whose contents are stored elsewhere, or an error if nobody has them."""
    slim = recording.model.slim
    content = None if slim is None else slim.content(tensor)
    if content is None and not recording.switches.dry:
        what = f"the tensor {name!r}" if name else f"a tensor of shape {list(tensor.shape)}"
        raise Unsupported(
            f"{what} has a shape and no contents: it is on the meta device, and no weights "
            "are known for it",
            hint="make it on the CPU, or as a parameter or buffer that the weights have",
        )
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return recording.builder.absent(tensor.detach(), content, name)


def _is_corner(tensor: torch.Tensor) -> bool:
    if tensor.is_meta or tensor.layout != torch.strided:
        return False
    return 4 * tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()

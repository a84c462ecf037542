"""Tensors that hold other tensors, as quantized weights do: their class defines each call on them.

It does so in Python (`__torch_function__`, `__torch_dispatch__`), with calls on the tensors inside.
Those arrive at the doors and are converted; the tensor around them never is a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch

from ...tensor_bytes import is_wrapper
from ..calls.arguments import tensors_in
from ..recording import Recording


def inside(tensor: torch.Tensor, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) for all tensors inside a tensor; for a plain one, itself."""
    if not is_wrapper(tensor):
        yield name, tensor
        return
    whole: Any = tensor  # to its stub, no tensor can be taken apart
    parts, _ = whole.__tensor_flatten__()
    for part in parts:
        yield from inside(getattr(tensor, part), f"{name}.{part}" if name else part)


def among(args: tuple, kwargs: dict) -> type | None:
    """The class of the first such tensor among arguments."""
    for _, tensor in tensors_in([args, kwargs]):
        if is_wrapper(tensor):
            return type(tensor)
    return None


def follow(recording: Recording, func, args: tuple, kwargs: dict, kind: Any, door: Any) -> Any:
    """Run a call on a wrapper tensor as its class defines it, and record the calls inside."""
    again = (func, door.level) in recording.running.opened
    recording.running.opened.append((func, door.level))
    recording.running.busy = False
    try:
        if door.level == "function" and again:
            return func(*args, **kwargs)  # the class leaves it to the operators
        says = kind.__torch_function__ if door.level == "function" else kind.__torch_dispatch__
        with ExitStack() as stack:
            for each in recording.running.doors if door.level == "operator" else (door,):
                stack.enter_context(each)
            return says(func, (kind,), args, kwargs)
    finally:
        recording.running.busy = True
        recording.running.opened.pop()

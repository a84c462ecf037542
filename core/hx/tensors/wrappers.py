"""Tensors that hold other tensors, as quantized weights do: their class says what a call does.

It says so in Python (`__torch_function__`, `__torch_dispatch__`), with calls on the tensors inside.
These arrive at the doors, and are asked; the tensor around them never is a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from ..recording.call import tensors_in
from .memory import is_wrapper

if TYPE_CHECKING:
    from ..recording.recording import Recording


def inside(tensor: torch.Tensor, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of what a tensor holds, of what that holds, and so on; itself if it is none."""
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
    """Does a call as the class says, with the doors open for what it calls."""
    again = (func, door.level) in recording.opening
    recording.opening.append((func, door.level))
    recording.busy = False
    try:
        if door.level == "function" and again:
            return func(*args, **kwargs)  # the class leaves it to the operators
        says = kind.__torch_function__ if door.level == "function" else kind.__torch_dispatch__
        with ExitStack() as stack:
            for each in recording.doors if door.level == "operator" else (door,):
                stack.enter_context(each)
            return says(func, (kind,), args, kwargs)
    finally:
        recording.busy = True
        recording.opening.pop()

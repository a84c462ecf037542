"""The two doors of torch: where its functions, and its operators, hand themselves to a recording."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import HxError
from ..packs import targets
from ..tensors import accounts, wrappers
from ..tensors.liveness import COUNTED_LATER
from . import known, opening, routes
from .call import tensors_in
from .recording import Recording


class Door:
    """What the two doors of torch share."""

    level = ""

    recording: Recording
    _keys: dict[Any, Any]

    def arrived(self, func, args: tuple, kwargs: dict) -> Any:
        recording = self.recording
        if recording.busy:
            return func(*args, **kwargs)
        key = self._keys.get(func)
        if key is None:
            func = opening.handed(func)
            key = self._keys[func] = targets.identify(func)
        recording.busy = True
        recording.written.clear()
        if recording.beneath is not None:
            recording.operators += recording.beneath[1] != key
            recording.reached.update(id(tensor) for _, tensor in tensors_in((args, kwargs)))
        try:
            kind = wrappers.among(args, kwargs) if recording.wraps else None
            if kind is not None:
                return wrappers.follow(recording, func, args, kwargs, kind, self)
            action = recording.actions.get((key, self.level))
            if action is None:
                action = routes.of(recording, key, func, self)
                recording.actions[key, self.level] = action
            result = action(recording, key, func, args, kwargs, self)
            if self.level == "operator":
                recording.live.counted_later(tensors_in([result]))
                if recording.beneath is None:
                    accounts.from_compiled(recording, key, func, args, result)
            return result
        except HxError as e:
            if e.where is None:
                e.where = recording.where()
            raise
        except Exception as problem:
            recording.raised.note(recording, problem, known.spelled(func, key), func, args, kwargs)
            raise
        finally:
            recording.busy = False
            if self.level == "operator":
                # PyTorch counts the write of an operator when its handler has returned.
                for family in recording.written:
                    for member in family.members:
                        member.version = COUNTED_LATER


class FunctionDoor(Door, TorchFunctionMode):
    level = "function"

    def __init__(self, recording: Recording) -> None:
        TorchFunctionMode.__init__(self)
        self.recording = recording
        recording.frames.door_code = FunctionDoor.__torch_function__.__code__
        self._keys = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if not self.recording.busy and any(map(_has_its_own, types)):
            return self._theirs(func, types, args, kwargs or {})
        return self.arrived(func, args, kwargs or {})

    def _theirs(self, func, types, args: tuple, kwargs: dict) -> Any:
        """A class says what a function does: a dict of tensors is stacked by stacking what is in
        it; a rotation that is turned is a rotation. What it calls for that arrives here."""
        with self:
            for kind in types:
                result = kind.__torch_function__(func, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        return func(*args, **kwargs)  # PyTorch tells that nobody knows how


def _has_its_own(kind: type) -> bool:
    """Whether a class is to be asked what a function does: of tensors, where the caller is not this
    class itself, and they do not hold others, which `wrappers` follows."""
    if not issubclass(kind, torch.Tensor):
        return True
    if kind is torch.Tensor or hasattr(kind, "__tensor_flatten__"):
        return False
    if kind.__torch_function__ is torch._C._disabled_torch_function_impl:
        return False  # nn.Parameter
    return torch._C._is_torch_function_enabled()


class OperatorDoor(Door, TorchDispatchMode):
    level = "operator"

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or PyTorch would import its compiler for the first call

    def __init__(self, recording: Recording) -> None:
        TorchDispatchMode.__init__(self)
        self.recording = recording
        self._keys = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.arrived(func, args, kwargs or {})

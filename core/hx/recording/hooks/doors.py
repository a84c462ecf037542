"""The two doors of torch, where its functions and its operators arrive at a recording."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ... import torch_facts
from ...errors import HxError
from ...packs import targets
from ...torchworld import torch_bodies
from ...torchworld.modes.operator_modes import OperatorMode
from ..calls.arguments import tensors_in
from ..memory import unrecorded_tensors, wrapper_tensors
from ..memory.live_tensors import COUNTED_LATER
from ..recording import Recording
from . import routes


class Door:
    """The common part of both doors of torch."""

    level = ""

    recording: Recording
    _keys: dict[Any, Any]

    def arrived(self, func, args: tuple, kwargs: dict) -> Any:
        recording = self.recording
        running = recording.running
        if running.busy:
            return func(*args, **kwargs)
        key = self._keys.get(func)
        if key is None:
            func = torch_bodies.handed(func)
            key = self._keys[func] = targets.identify(func)
        memory, level = recording.memory, self.level
        running.busy = True
        memory.written_families.clear()
        if running.asked_function is not None:
            running.operators += running.asked_function[1] != key
            running.reached.update(id(tensor) for _, tensor in tensors_in((args, kwargs)))
        try:
            kind = wrapper_tensors.among(args, kwargs) if memory.has_wrappers else None
            if kind is not None:
                running.told = True
                return wrapper_tensors.follow(recording, func, args, kwargs, kind, self)
            action = running.actions.get((key, level))
            if action is None:
                action = routes.of(recording, key, func, self)
                running.actions[key, level] = action
            result = action(recording, key, func, args, kwargs, self)
            if type(result) is not torch.Tensor and result is not None:
                running.told |= key not in torch_facts.FIXED_KEYS
            if level == "operator":
                running.told |= running.asked_function is None
                memory.live.counted_later(tensors_in([result]))
                if running.asked_function is None:
                    unrecorded_tensors.from_compiled(recording, key, func, args, result)
            return result
        except HxError as e:
            if e.where is None:
                e.where = recording.position.where()
            raise
        except Exception as problem:
            recording.findings.raised.note(
                memory.live,
                recording.position.where,
                problem,
                torch_facts.public_name(func, key),
                func,
                args,
                kwargs,
            )
            raise
        finally:
            running.busy = False
            if level == "operator":
                # PyTorch counts the write of an operator when its handler has returned.
                for family in memory.written_families:
                    for member in family.members:
                        member.version = COUNTED_LATER


class FunctionDoor(Door, TorchFunctionMode):
    level = "function"

    def __init__(self, recording: Recording) -> None:
        TorchFunctionMode.__init__(self)
        self.recording = recording
        recording.position.frames.door_code = FunctionDoor.__torch_function__.__code__
        self._keys = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if not self.recording.running.busy and any(map(_has_its_own, types)):
            return self._theirs(func, types, args, kwargs or {})
        return self.arrived(func, args, kwargs or {})

    def _theirs(self, func, types, args: tuple, kwargs: dict) -> Any:
        """Let the classes say what a function does: a dict of tensors is stacked by stacking its
        items; a rotated rotation is a rotation. The calls inside arrive here.
        """
        with self:
            for kind in types:
                result = kind.__torch_function__(func, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        return func(*args, **kwargs)  # PyTorch raises the error for a missing kernel


def _has_its_own(kind: type) -> bool:
    """Return True if a class has its own `__torch_function__` to be asked first.

    A tensor subclass counts only if the call comes from outside the class, and if it does not hold
    other tensors, which `wrapper_tensors` follows.
    """
    if not issubclass(kind, torch.Tensor):
        return True
    if kind is torch.Tensor or hasattr(kind, "__tensor_flatten__"):
        return False
    if kind.__torch_function__ is torch._C._disabled_torch_function_impl:
        return False  # nn.Parameter
    return torch._C._is_torch_function_enabled()


class OperatorDoor(Door, OperatorMode):
    level = "operator"

    def __init__(self, recording: Recording) -> None:
        OperatorMode.__init__(self)
        self.recording = recording
        self._keys = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.arrived(func, args, kwargs or {})

"""Notes for a model that computes something else in training mode, in which it is not exported.

A module that was just made is in training mode, and mostly nothing depends on it: only a model with
a module for which it matters gets a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from ..findings import CHECKED, Finding
from .spelling.reachable_functions import say

TOLD = "the model was in training mode, and is exported in eval mode"


def findings(modules: Iterable[nn.Module]) -> list[Finding]:
    """A finding about a model, given its modules that were in training mode."""
    return [Finding(CHECKED, TOLD)] if any(map(_differs, modules)) else []


def _differs(module: nn.Module) -> bool:
    if any(isinstance(hook, SpectralNorm) for hook in module._forward_pre_hooks.values()):
        return True
    if isinstance(module, torch.jit.ScriptModule):
        return "training" in getattr(module, "code", "")
    if isinstance(module, _NormBase):
        return module.running_mean is not None
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
        return module.dropout > 0
    if isinstance(module, (nn.RReLU, _SpectralNorm)):
        return True
    return say("training", _own_methods(module))


def _own_methods(module: nn.Module) -> Iterator[Any]:
    """The methods other than torch's, which check the mode only to choose a faster path."""
    for kind in type(module).__mro__:
        if kind.__module__.partition(".")[0] != "torch":
            yield from (each for name, each in vars(kind).items() if name not in ("train", "eval"))
    yield vars(module).get("forward")

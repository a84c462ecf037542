"""Functions of PyTorch that tell a model whether it is traced or exported.

Model libraries call them, and take another path then. For a tracer, they leave out branches on
data, and often a cache that they otherwise return. For the exporters of torch.onnx, they avoid what
these do not support, and that may compute something else, or nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from ...ir.recipe import EXPORTING, ONNX, TRACING

# Modules of PyTorch that ask, and refuse to run under other tracers, but run here.
REFUSES = {"torch.nn.utils.stateless", "torch._dynamo.external_utils"}


def tracing_questions() -> dict[Callable, str]:
    """The functions of PyTorch that answer such questions, if they are imported."""
    asked: dict[Callable, str] = {torch.jit.is_tracing: TRACING}
    exporting = getattr(torch.compiler, "is_exporting", None)  # new in 2.7
    if exporting is not None:
        asked[exporting] = EXPORTING
    # Not imported for this: that takes a tenth of a second.
    onnx = getattr(sys.modules.get("torch.onnx"), "is_in_onnx_export", None)
    if onnx is not None:
        asked[onnx] = ONNX
    return asked

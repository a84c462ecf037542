"""Functions of PyTorch that tell a model whether it is traced or exported.

Model libraries call them, and take another path then. For a tracer, they leave out branches on
data, and often a cache that they otherwise return. For the exporters of torch.onnx, they avoid what
these do not support, and that may compute something else, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..ir.recipe import EXPORTING, ONNX, TRACING

# Modules of PyTorch that ask, and refuse to run under other tracers, but run here.
REFUSES = {"torch.nn.utils.stateless", "torch._dynamo.external_utils"}


def tracing_questions() -> dict[Callable, str]:
    """The functions of PyTorch that answer such questions."""
    asked = {torch.jit.is_tracing: TRACING, torch.onnx.is_in_onnx_export: ONNX}
    exporting = getattr(torch.compiler, "is_exporting", None)  # new in 2.7
    if exporting is not None:
        asked[exporting] = EXPORTING
    return asked

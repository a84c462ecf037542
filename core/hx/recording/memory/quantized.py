"""Quantized tensors: in the graph, they are the numbers that they stand for.

Rounding to the steps of a tensor becomes QuantizeLinear and DequantizeLinear, which a runtime that
computes with integers fuses with the nodes in between. The steps are those of the recording: where
they would depend on the data, a converter has to refuse.

Imports nothing heavy when it is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import Unsupported
from ...ir.value import Value
from ...lazy import torch
from ...tensor_quantization import quantization

if TYPE_CHECKING:
    from ...graph.builder import Builder


def require_plain(what: str, x: Any) -> None:
    """Raise for quantized inputs and outputs: a file stores no steps with them."""
    if isinstance(x, torch.Tensor) and x.is_quantized:
        raise Unsupported(
            f"{what} is a quantized tensor, and a graph takes and returns plain tensors only",
            hint="quantize within the model, and return y.dequantize()",
        )


def rounded(builder: Builder, value: Any, real: torch.Tensor) -> Any:
    """Round the value of a converter to the steps of a quantized tensor."""
    if not isinstance(value, Value) or value.dtype != torch.float32:
        return value  # it is going to be told what it should be
    from ...graph.op import Op

    op = Op(builder)
    scale, zero, axis = quantization(real)
    parts = op.constant(scale), op.constant(zero)
    along = {} if axis is None else {"axis": axis}
    return op.DequantizeLinear(op.QuantizeLinear(value, *parts, **along), *parts, **along)

"""Quantized tensors: in the graph, they are the numbers that they stand for.

What PyTorch rounds to the steps of a tensor goes through QuantizeLinear and DequantizeLinear there,
which a runtime that computes with integers takes together with what is between them. The steps are
those of the recording: where they would depend on the data, a converter has to refuse.

Imports nothing heavy when it is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import Unsupported
from ..lazy import torch
from .values import Value

if TYPE_CHECKING:
    from ..graph.builder import Builder


def steps(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int | None]:
    """The scale and the zero point of a quantized tensor, and the axis that they are along."""
    kind = {torch.quint8: torch.uint8, torch.qint8: torch.int8}.get(tensor.dtype)
    if kind is None or tensor.qscheme() not in (torch.per_tensor_affine, torch.per_channel_affine):
        raise Unsupported(
            f"a tensor is quantized to {str(tensor.dtype).removeprefix('torch.')} "
            f"({str(tensor.qscheme()).removeprefix('torch.')}), which ONNX cannot say",
            hint="quantize to 8 bits, with zero points that are integers",
        )
    if tensor.qscheme() == torch.per_tensor_affine:
        scale, zero = tensor.q_scale(), tensor.q_zero_point()
        return torch.tensor(scale, dtype=torch.float32), torch.tensor(zero, dtype=kind), None
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return scales.float(), zeros.to(kind), tensor.q_per_channel_axis()


def require_plain(what: str, x: Any) -> None:
    """Inputs and outputs of a file have no steps beside them."""
    if isinstance(x, torch.Tensor) and x.is_quantized:
        raise Unsupported(
            f"{what} is a quantized tensor, and a graph takes and gives plain ones",
            hint="quantize within the model, and return y.dequantize()",
        )


def rounded(builder: Builder, value: Any, real: torch.Tensor) -> Any:
    """What a converter gave for a real tensor, on the steps that the tensor has."""
    if not isinstance(value, Value) or value.dtype != torch.float32:
        return value  # it is going to be told what it should be
    from ..graph.op import Op

    op = Op(builder)
    scale, zero, axis = steps(real)
    parts = op.constant(scale), op.constant(zero)
    along = {} if axis is None else {"axis": axis}
    return op.DequantizeLinear(op.QuantizeLinear(value, *parts, **along), *parts, **along)

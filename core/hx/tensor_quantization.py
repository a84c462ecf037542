"""Scales and zero points of quantized tensors."""

from __future__ import annotations

from .errors import Unsupported
from .lazy import torch


def quantization(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int | None]:
    """Return scale, zero point and axis of a quantized tensor; None as axis for one scale."""
    kind = {torch.quint8: torch.uint8, torch.qint8: torch.int8}.get(tensor.dtype)
    if kind is None or tensor.qscheme() not in (torch.per_tensor_affine, torch.per_channel_affine):
        raise Unsupported(
            f"a tensor is quantized to {str(tensor.dtype).removeprefix('torch.')} "
            f"({str(tensor.qscheme()).removeprefix('torch.')}), which ONNX cannot express",
            hint="quantize to 8 bits, with zero points that are integers",
        )
    if tensor.qscheme() == torch.per_tensor_affine:
        scale, zero = tensor.q_scale(), tensor.q_zero_point()
        return torch.tensor(scale, dtype=torch.float32), torch.tensor(zero, dtype=kind), None
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return scales.float(), zeros.to(kind), tensor.q_per_channel_axis()

"""Linear layers whose weights have 4 bits each, and one scale for every block of a row.

The module computes with exactly the weights that onnxruntime's MatMulNBits computes with: what
quantizing costs shows in the model itself, and the graph is held to the model as always.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

ZERO = 8  # the code of 0: codes go from 0 to 15


class Linear4(nn.Module):
    """A Linear layer in 4 bits. `codes` holds two weights a byte, by row and block."""

    codes: torch.Tensor
    scales: torch.Tensor

    def __init__(self, linear: nn.Linear, block: int = 32) -> None:
        super().__init__()
        self.rows, self.columns, self.block = linear.out_features, linear.in_features, block
        weight = linear.weight.detach().float()
        weight = F.pad(weight, (0, -self.columns % block)).view(self.rows, -1, block)
        scales = weight.abs().amax(-1) / 7
        steps = torch.where(scales > 0, scales, 1.0)[..., None]
        codes = (weight / steps).round().add(ZERO).clamp(0, 15).to(torch.uint8)
        self.register_buffer("codes", codes[..., 0::2] | codes[..., 1::2] << 4)
        self.register_buffer("scales", scales)
        self.bias = linear.bias

    @property
    def weight(self) -> torch.Tensor:
        """The weights as floats again."""
        codes = torch.stack([self.codes & 15, self.codes >> 4], -1).flatten(-2)
        weight = (codes.float() - ZERO) * self.scales[..., None]
        return weight.flatten(1)[:, : self.columns]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.columns}, {self.rows}, block={self.block}"


def quantize(model: nn.Module, block: int = 32, least: int = 2048) -> nn.Module:
    """Puts every Linear of at least `least` inputs and outputs into 4 bits, in place.

    A weight that several modules share is left alone, and so are subclasses of Linear.
    """
    if block < 16 or block & block - 1:
        raise ValueError(f"block is {block}; onnxruntime takes 16, 32, 64, 128 or 256")
    uses: dict[int, int] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is not nn.Linear or uses[id(child.weight)] > 1:
                continue
            if min(child.in_features, child.out_features) >= least:
                setattr(parent, name, Linear4(child, block).train(child.training))
    return model

"""A small language model, and the same without its weights."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Language(nn.Module):
    """Tied embeddings, a table that no state_dict has, and weights above and below the limit."""

    def __init__(self, width: int = 160, words: int = 500, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        steps = torch.arange(0, width, 2, device="cpu") / width
        self.register_buffer("frequencies", 1 / 10000**steps, persistent=False)

    def forward(self, ids):
        x = self.embed(ids)
        angles = torch.arange(ids.shape[1], device=x.device)[:, None] * self.frequencies
        x = x + torch.cat([angles.sin(), angles.cos()], -1).to(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


IDS = torch.tensor([[3, 1, 4, 1, 5, 9]])
AXES = {"ids": {0: "batch", 1: "length"}}


def on_meta(make):
    with torch.device("meta"):
        return make()


def own(model):
    """Its state_dict, each tensor once."""
    found = {}
    for name, tensor in model.state_dict().items():
        if all(tensor.data_ptr() != other.data_ptr() for other in found.values()):
            found[name] = tensor
    return found

"""Models whose Python code cannot know a size are not recorded again to look for constants."""

import numpy as np
import pytest
import torch
from torch import nn

import hx


def recordings(model, x, axis=0):
    program = hx.export(model, x, None, dynamic={"x": {axis: "n"}})
    assert program.proof.ok
    return program.report.spent.split(" and ")[0]


class Silent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        x = self.norm(self.convolution(x.float())).relu_()
        return self.last(nn.functional.max_pool2d(x, 2).mean((2, 3))).softmax(x.dim() - 3)


def test_a_model_that_hears_of_no_size_is_recorded_once():
    assert recordings(Silent(), torch.randn(2, 3, 9, 9)) == "1 recording"


SIZES = {
    "shape": lambda x: x * (1 + 0 * x.shape[0]),
    "size": lambda x: x * (1 + 0 * x.size(0)),
    "numel": lambda x: x * (1 + 0 * x.numel()),
    "len": lambda x: x * (1 + 0 * len(x)),
    "of a result": lambda x: x * (1 + 0 * (x + 1).shape[0]),
    "pieces": lambda x: sum(piece.sum() for piece in x.split(2)),
    "rows": lambda x: sum(x),
    "elements": lambda x: x * (1 + 0 * int(x.long().sum())),
    "text": lambda x: x * (1 + 0 * len(repr(x.stride()))),
    "array": lambda x: torch.from_numpy(np.tanh(x.numpy())),
}


@pytest.mark.parametrize("way", SIZES)
def test_a_model_that_may_know_a_size_is_recorded_again(way):
    class Knows(nn.Module):
        def forward(self, x):
            return SIZES[way](x)

    program = hx.export(Knows(), torch.rand(4, 3), None, verify=False, dynamic={"x": {0: "n"}})
    assert program._trace.effects.knows_sizes


def test_compiled_code_may_know_a_size():
    @torch.jit.script
    def scripted(x: torch.Tensor) -> torch.Tensor:
        return x * (1 + 0 * x.size(0))

    class Scripted(nn.Module):
        def forward(self, x):
            return scripted(x)

    program = hx.export(Scripted(), torch.rand(4, 3), None, verify=False, dynamic={"x": {0: "n"}})
    assert program._trace.effects.knows_sizes

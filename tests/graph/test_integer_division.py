"""One divided by whole numbers, and times others: onnxruntime divides these others instead."""

from __future__ import annotations

import pytest
import torch

import hx

X, Y = torch.tensor([[-3, 7], [5, 2]]), torch.tensor([[4, -9], [1, 3]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.fmod(torch.tensor(1), x),
        lambda x, y: torch.fmod(torch.tensor(1, dtype=torch.int32), x),
        lambda x, y: torch.div(1, x, rounding_mode="trunc") * y,
        lambda x, y: (torch.div(1, x, rounding_mode="trunc") * y).to(torch.int32),
        lambda x, y: torch.div(1, x.abs().to(torch.uint8), rounding_mode="trunc") * y,
    ],
)
@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
def test_whole_numbers_are_rounded_before_they_are_multiplied(function, kind):
    program = hx.export(function, (X.to(kind), Y.to(kind)))
    x, y = torch.tensor([[1, -1], [2, -2]]).to(kind), torch.tensor([[5, 6], [7, -8]]).to(kind)
    for given in ((X.to(kind), Y.to(kind)), (x, y)):
        assert torch.equal(program.run(*given), function(*given))

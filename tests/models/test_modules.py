"""Modules of torch.nn whose eval mode does more than their parts say."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hx
from hx.runtime import Session


def run(path, **tensors):
    return Session(path).run(tensors)


@pytest.mark.parametrize("norm", [None, nn.LayerNorm(8)])
def test_an_encoder_leaves_nothing_at_padded_places(tmp_path, norm):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, norm=norm).eval()
    if norm is not None:
        nn.init.normal_(norm.bias)
    x, path = torch.randn(3, 5, 8), tmp_path / "m.onnx"
    last = torch.arange(5) >= torch.tensor([[5], [3], [2]])
    hx.export(model, (x,), path, kwargs={"src_key_padding_mask": last},
              dynamic={"src": {0: "n", 1: "s"}, "src_key_padding_mask": {0: "n", 1: "s"}})  # fmt: skip
    first = last.flip(1)
    with torch.no_grad():
        for mask in (last, first, last[[0, 0, 2]]):
            (found,) = run(path, src=x, src_key_padding_mask=mask)
            torch.testing.assert_close(found, model(x, src_key_padding_mask=mask))

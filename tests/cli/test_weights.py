"""Weights on the command line: --weights of a file or a folder, --meta, --dtype."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import save_file

BIG = """
import torch
from torch import nn


class Big(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(300, 200)
        self.linear = nn.Linear(200, 100)
        self.register_buffer("scale", torch.arange(100) / 100, persistent=False)

    def forward(self, ids):
        return self.linear(self.embed(ids)) * self.scale


def build(): return Big(), (torch.tensor([[1, 2, 3]]),)
def on_meta():
    with torch.device("meta"):
        return Big(), (torch.tensor([[1, 2, 3]]),)
"""


@pytest.fixture
def checkpoint(folder):
    """Two shards and their index."""
    (folder / "big.py").write_text(BIG)
    torch.manual_seed(3)
    tensors = {
        "embed.weight": torch.randn(300, 200),
        "linear.weight": torch.randn(100, 200),
        "linear.bias": torch.randn(100),
    }
    place = folder / "checkpoint"
    place.mkdir()
    save_file({"embed.weight": tensors["embed.weight"]}, place / "a.safetensors")
    save_file({k: tensors[k] for k in tensors if k != "embed.weight"}, place / "b.safetensors")
    where = {k: "a.safetensors" if k == "embed.weight" else "b.safetensors" for k in tensors}
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return place


def embedding(path):
    model = onnx.load(path)
    stored = {each.name: each for each in model.graph.initializer}
    return numpy_helper.to_array(stored["embed.weight"])


def test_a_model_that_is_made_without_its_weights(hx, checkpoint, folder):
    words = ("--meta", "-w", "checkpoint", "-d", "ids:0=batch", "--external-data")
    done = hx("export", "big.py:build", "-o", "m.onnx", *words, "--json")
    assert done.code == 0 and done.json["report"]["proof"]["ok"]
    assert done.json["report"]["data_path"]
    torch.manual_seed(3)
    np.testing.assert_array_equal(embedding(folder / "m.onnx"), torch.randn(300, 200).numpy())


def test_its_file_is_viewed_and_verified(hx, checkpoint):
    hx("export", "big.py:build", "-o", "m.onnx", "--meta", "-w", "checkpoint", "--external-data")
    assert "Gather" in hx("view", "m.onnx", "--no-browser").out
    good = hx("verify", "m.onnx", "big.py:build", "--meta", "-w", "checkpoint")
    assert good.code == 0 and "verified" in good.out
    # The same model, made with memory for its weights, and with other weights.
    assert hx("verify", "m.onnx", "big.py:build", "-w", "checkpoint").code == 0
    assert hx("verify", "m.onnx", "big.py:build").code == 4


def test_a_cast_file_is_verified_as_that(hx, checkpoint, folder):
    words = ("big.py:build", "--meta", "-w", "checkpoint", "--dtype", "float16")
    assert hx("export", *words, "-o", "m.onnx").code == 0
    assert embedding(folder / "m.onnx").dtype == np.float16
    assert hx("verify", "m.onnx", *words).code == 0
    assert hx("verify", "m.onnx", "big.py:build", "-w", "checkpoint").code == 4


def test_a_model_with_its_weights_is_cast_too(hx, checkpoint, folder):
    done = hx("export", "big.py:build", "-w", "checkpoint", "--dtype", "bfloat16", "-o", "m.onnx")
    assert done.code == 0
    model = onnx.load(folder / "m.onnx")
    assert model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
    assert (
        "float16, bfloat16" in hx("export", "big.py:build", "-o", "m.onnx", "--dtype", "int8").err
    )


def test_a_dry_run_needs_no_weights(hx, checkpoint):
    assert hx("scan", "big.py:build", "--meta").code == 0


def test_without_weights_it_is_said_what_is_missing(hx, checkpoint):
    done = hx("export", "big.py:build", "--meta", "-o", "m.onnx")
    assert done.code == 2 and "embed.weight" in done.err and "--weights" in done.err


def test_a_table_that_was_made_on_meta_is_told(hx, checkpoint):
    done = hx("export", "big.py:on_meta", "-w", "checkpoint", "-o", "m.onnx")
    assert done.code == 2 and "no contents: scale" in done.err


def test_weights_that_do_not_fit_are_told(hx, checkpoint):
    (checkpoint / "b.safetensors").unlink()
    done = hx("export", "big.py:build", "--meta", "-w", "checkpoint", "-o", "m.onnx")
    assert done.code == 2 and "b.safetensors" in done.err
    done = hx("export", "big.py:build", "--meta", "-w", "checkpoint/a.safetensors", "-o", "m.onnx")
    assert done.code == 2 and "missing: linear.weight, linear.bias" in done.err


def test_a_command_that_runs_the_model_itself_says_so(hx, checkpoint):
    done = hx("inspect", "big.py:on_meta", "-w", "checkpoint")
    assert done.code == 2 and "meta device" in done.err


def test_a_script_is_no_file_of_weights(hx, folder, recwarn):
    torch.jit.script(torch.nn.Linear(4, 3)).save(folder / "s.pt")
    recwarn.clear()
    done = hx("export", "models.py:line", "-o", "m.onnx", "-i", "x=float32[2,4]", "-w", "s.pt")
    assert done.code == 2 and "why:   it is a TorchScript archive, which holds code" in done.err
    assert not [each for each in recwarn if "TorchScript" in str(each.message)]

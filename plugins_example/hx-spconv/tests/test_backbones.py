"""Whole backbones in both forms, for other point clouds than the recorded one."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hx_spconv import models
from hx_spconv.examples import points

pytest.importorskip("spconv", reason="spconv is not installed: see 'Run the tests' in the README")

README = Path(__file__).parents[1] / "README.md"
ANY = {"voxel_features": {0: "points"}, "coordinates": {0: "points"}}


@pytest.mark.parametrize("name", ["centerpoint", "voxelnext", "unet"])
def test_backbone(name, export, form, in_onnxruntime):
    torch.manual_seed(0)
    model, args = models.load(name)
    program, path = export(model, args, dynamic=ANY, strict=True)
    nodes = len(list(program.model.graph))
    row = re.search(rf"spconv:{name}. .*\| (\d+) \| (\d+) \|", README.read_text())
    assert nodes == int(row.group(1 if form == "standard" else 2)), "what the README says"
    count = Counter(f"{node.domain}:{node.op_type}" for node in program.model.graph)
    strides, keys, layers = {
        "centerpoint": (4, 4, 21),
        "voxelnext": (6, 7, 32),
        "unet": (2, 3, 11),
    }[name]
    if form == "custom":
        # Neighbours are looked up once for each indice_key, however many layers share it.
        assert count["spconv:SubMPairs"] == keys and count["spconv:ConvPairs"] == strides
        assert count["spconv:Conv"] == layers
        return
    assert count[":Loop"] == keys and count[":Gemm"] >= layers
    for number in (500, 3000):
        other = torch.randn(number, 5), points(number, model.shape, seed=number)
        with torch.no_grad():
            want = model(*other)
        want = want if isinstance(want, tuple) else (want,)
        for got, real in zip(in_onnxruntime(path, *other), want):
            assert got.shape == tuple(real.shape)
            np.testing.assert_allclose(got, real, rtol=1e-3, atol=1e-4)


def test_sparse_tensors_are_shown_as_what_they_hold():
    command = [sys.executable, "-m", "hx", "inspect", "spconv:unet", "--depth", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    modules = json.loads(done.stdout)["modules"]
    (entered,) = (each["output"] for each in modules if each["path"] == "enter")
    assert [each["shape"] for each in entered] == [[2000, 16], [2000, 4]]
    assert [each["dtype"] for each in entered] == ["float32", "int32"]

"""Whatever stands in a text or a file: a clear error or a right reading, and no code is run.

    HX_THOROUGH=1 python -m pytest -s tests/export/test_bad_input.py

tries 3,000 damaged files of each kind, and prints how many were refused.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import hx
from hx.ir import dynamic_axes
from hx.ir.input_grammar import TensorSpec, parse_input, parse_spec
from hx.weights import checkpoint, tensor_files

THOROUGH = bool(os.environ.get("HX_THOROUGH"))
COUNT = 3000 if THOROUGH else 150

quickly = settings(derandomize=True, max_examples=10_000 if THOROUGH else 300, deadline=None)
# Rather what nearly is one.
texts = st.text("xyab[],=<>0123456789.-float32int64 {}()é\n", max_size=30) | st.text(max_size=12)


@quickly
@given(texts)
def test_any_text_is_an_input_or_a_mistake(text):
    try:
        _, spec = parse_input(text)
    except hx.UsageError as error:
        assert str(error)
    else:
        assert parse_spec(str(spec)) == spec


words = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)


@quickly
@given(
    st.sampled_from(["float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]),
    st.lists(st.integers(0, 2**40) | words, max_size=6),
)
def test_what_is_printed_reads_back(dtype, dims):
    spec = TensorSpec(dtype, tuple(dims))
    assert parse_spec(str(spec)).dims == spec.dims


axes = st.dictionaries(st.integers(-9, 9) | st.text(max_size=2), st.text(max_size=4) | st.none())


@quickly
@given(
    st.dictionaries(st.sampled_from(["x", "y", "", "0"]), axes | st.lists(st.integers(-9, 9)))
    | st.lists(axes, max_size=3)
    | st.none()
)
def test_any_dynamic_is_understood_or_refused(given_axes):
    inputs = {"x": torch.zeros(2, 3), "y": torch.zeros(3)}
    try:
        found = dynamic_axes.axes(given_axes, inputs)
    except hx.UsageError as error:
        assert str(error)
    else:
        for name, words_by_axis in found.items():
            assert all(0 <= axis < inputs[name].dim() for axis in words_by_axis)


@pytest.mark.parametrize("opset", [12, 27, 0, -1, 20.0, "20", None, 2**70])
def test_opsets_that_there_are_not(opset):
    with pytest.raises(hx.UsageError, match="opset"):
        hx.export(torch.relu, torch.ones(2), opset=opset)


# Files.


class Runs:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def good(kind):
    """A file of each kind, as bytes."""
    held, table = io.BytesIO(), {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4).bool()}
    if kind == "pt":
        torch.save(table, held)
    elif kind == "npz":
        np.savez(held, **{k: v.numpy() for k, v in table.items()})
    elif kind == "npy":
        np.save(held, table["a"].numpy())
    return held.getvalue()


def damaged(data, seed):
    """Bytes changed, cut off, left out, doubled; lengths made absurd."""
    r, out = random.Random(seed), bytearray(data)
    for _ in range(r.choice([1, 1, 2, 8])):
        at = r.randrange(len(out) or 1)
        kind = r.randrange(5)
        if kind == 0 and out:
            out[at] = r.randrange(256)
        elif kind == 1:
            out[at : at + 8] = b"\xff" * 8
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + r.randrange(1, 40)]
        else:
            out[at:at] = out[max(0, at - 30) : at]
    return bytes(out)


@pytest.mark.parametrize("kind", ["pt", "npz", "npy", "safetensors"])
def test_damaged_files_are_read_or_refused(tmp_path, kind, capfd):
    path = tmp_path / f"file.{kind}"
    if kind == "safetensors":
        save_file({"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4)}, path)
        data = path.read_bytes()
    else:
        data = good(kind)
    refused = 0
    for seed in range(COUNT):
        path.write_bytes(damaged(data, seed))
        for read in (tensor_files.read, checkpoint.contents):
            try:
                read(path)
            except hx.UsageError as error:
                refused += 1
                assert str(path) in str(error)
    with capfd.disabled():
        print(f"\n{COUNT} damaged .{kind} files, each read in two ways: {refused} refused")
    assert refused > COUNT / 3
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["evil.pt", "evil.npy", "evil.npz", "evil.bin"])
def test_code_in_a_file_is_not_run(tmp_path, name):
    path, ran = tmp_path / name, tmp_path / "ran"
    if path.suffix == ".npz":
        np.savez(path, a=np.array([Runs(ran)], dtype=object), allow_pickle=True)
    elif path.suffix == ".npy":
        np.save(path, np.array([Runs(ran)], dtype=object), allow_pickle=True)
    elif path.suffix == ".bin":
        path.write_bytes(pickle.dumps({"a": Runs(ran)}))
    else:
        torch.save({"a": Runs(ran)}, path)
    for read in (tensor_files.read, checkpoint.contents):
        with pytest.raises(hx.UsageError):
            read(path)
    assert not ran.exists()


def test_absurd_sizes_are_refused_at_once(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"shape": (2**50,), "fortran_order": False, "descr": "<f4"}
    )
    with zipfile.ZipFile(tmp_path / "big.npz", "w") as archive:
        archive.writestr("a.npy", header.getvalue() + b"\0" * 16)
    (tmp_path / "big.npy").write_bytes(header.getvalue() + b"\0" * 16)
    said = {"a": {"dtype": "F32", "shape": [2**50], "data_offsets": [0, 2**52]}}
    text = json.dumps(said).encode()
    (tmp_path / "big.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    for name in ("big.npz", "big.npy", "big.safetensors"):
        with pytest.raises(hx.UsageError, match=name):
            tensor_files.read(tmp_path / name)


@pytest.mark.parametrize(
    "climbs", ["../secret.safetensors", "/etc/passwd", "a/../../secret.safetensors"]
)
def test_an_index_that_climbs_out_of_its_folder(tmp_path, climbs):
    save_file({"a": torch.ones(2)}, tmp_path / "secret.safetensors")
    folder = tmp_path / "weights"
    folder.mkdir()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": climbs}}))
    for path in (index, folder):
        with pytest.raises(hx.UsageError):
            checkpoint.contents(path)

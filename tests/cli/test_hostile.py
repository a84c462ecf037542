"""Files that are damaged, or made to do harm: one clear message, and nothing else happens.

    HX_THOROUGH=1 python -m pytest -s tests/cli/test_hostile.py

tries 3,000 damaged files, and prints how each command ended.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import zipfile
from collections import Counter

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

COUNT = 1000 if os.environ.get("HX_THOROUGH") else 30
EVIL = "\x1b[2Jx\x07\u202e\r\nfile  good.onnx"


def graph(name="x", dims=(2, 4), element=TensorProto.FLOAT, weights=(), **about):
    """x + 1, with what a test wants otherwise."""
    given = helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
    given.type.tensor_type.elem_type = element
    node = helper.make_node("Add", [name, "one"], ["y"], name=about.pop("node", "n"))
    for key, text in about.pop("notes", {}).items():
        node.metadata_props.add(key=key, value=text)
    made = helper.make_graph(
        [node],
        "g",
        [given],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]), *weights],
    )
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(made, opset_imports=opsets, ir_version=9, **about)


def elsewhere(location, length=64):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[16])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": 0, "length": length}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def clear(done):
    """No message that was not foreseen, and nothing that a terminal would obey."""
    assert "--debug" not in done.err, done.err
    assert not re.search(r"[^\n\t]", "".join(c for c in done.told if not c.isprintable()))
    return done


# Graphs.


@pytest.mark.parametrize(
    "place", ["../secret.bin", "/etc/passwd", "link.bin", "pipe.bin", "/dev/zero", ".", "a/../../b"]
)
def test_data_outside_of_the_folder_is_not_read(hx, folder, place):
    (folder / "secret.bin").write_bytes(b"s" * 64)
    inside = folder / "models"
    inside.mkdir()
    (inside / "link.bin").symlink_to("../secret.bin")
    os.mkfifo(inside / "pipe.bin")
    for name in ("a", "b"):
        onnx.save(graph(weights=[elsewhere(place)]), inside / f"{name}.onnx")
    done = clear(hx("diff", "models/a.onnx", "models/b.onnx"))
    assert done.code == 2 and "no file in the folder of its model" in done.err
    done = clear(hx("verify", "models/a.onnx", "models.py:with_inputs"))
    assert done.code in (2, 4)


def test_data_beside_a_model_is_read(hx, folder):
    for name, byte in (("a", 0), ("b", 1)):
        (folder / f"{name}.bin").write_bytes(bytes([byte]) * 64)
        onnx.save(graph(weights=[elsewhere(f"{name}.bin")]), folder / f"{name}.onnx")
    assert "1 weight changed" in hx("diff", "a.onnx", "b.onnx").err
    assert "the same" in hx("diff", "a.onnx", "a.onnx").err


@pytest.mark.parametrize(
    "about",
    [
        {"name": EVIL},
        {"dims": (EVIL, 4)},
        {"producer_name": EVIL},
        {"node": EVIL},
        {"notes": {"hx.module": EVIL, "hx.source": EVIL}},
        {"weights": [helper.make_tensor(EVIL, TensorProto.FLOAT, [1], [1.0])]},
    ],
    ids=lambda about: next(iter(about)),
)
@pytest.mark.parametrize("colours", [False, True])
def test_names_do_not_steer_the_terminal(hx, folder, monkeypatch, about, colours):
    if colours:
        monkeypatch.setenv("FORCE_COLOR", "1")
    onnx.save(graph(), folder / "good.onnx")
    onnx.save(graph(**about), folder / "evil.onnx")
    for words in (
        ["view", "evil.onnx", "--no-browser"],
        ["diff", "good.onnx", "evil.onnx"],
        ["verify", "evil.onnx", "models.py:with_inputs"],
    ):
        told = re.sub(r"\x1b\[(0|1|2|3\d)m", "", hx(*words).told)
        assert not [c for c in told if not c.isprintable() and c != "\n"]
        assert words[0] == "verify" or not re.search("^file  good", told, re.MULTILINE)


def test_a_dtype_that_there_is_not(hx, folder):
    onnx.save(graph(element=999), folder / "odd.onnx")
    done = clear(hx("view", "odd.onnx", "--no-browser"))
    assert done.code == 0 and "type 999" in done.out


def test_an_empty_file_is_no_graph(hx, folder):
    onnx.save(graph(), folder / "good.onnx")
    (folder / "empty.onnx").write_bytes(b"")
    for words in (
        ["view", "empty.onnx", "--no-browser"],
        ["diff", "empty.onnx", "empty.onnx"],
        ["diff", "good.onnx", "empty.onnx"],
        ["verify", "empty.onnx", "models.py:with_inputs"],
    ):
        done = clear(hx(*words))
        assert done.code == 2 and "empty.onnx is not an ONNX file" in done.err


def damaged(data, chance):
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        at = chance.randrange(len(out) or 1)
        kind = chance.randrange(5)
        if kind == 0 and out:
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            out[at : at + 8] = b"\xff" * 8
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + chance.randrange(1, 40)]
        else:
            out[at:at] = out[max(0, at - 30) : at]
    return bytes(out)


def test_damaged_graphs_are_read_or_refused(hx, folder, capfd):
    hx("export", "models.py:with_inputs", "-o", "good.onnx", "-d", "x:0=b")
    good = (folder / "good.onnx").read_bytes()
    names = {path.name for path in folder.iterdir()} | {"bad.onnx"}
    ends = Counter()
    for seed in range(COUNT):
        (folder / "bad.onnx").write_bytes(damaged(good, random.Random(seed)))
        for words in (
            ["view", "bad.onnx", "--no-browser"],
            ["diff", "good.onnx", "bad.onnx"],
            ["verify", "bad.onnx", "models.py:with_inputs"],
        ):
            done = clear(hx(*words))
            assert done.code in (0, 2, 4), f"seed {seed}: {done.err}"
            ends[words[0], done.code] += 1
    assert {path.name for path in folder.iterdir()} <= names
    with capfd.disabled():
        print(f"\n{COUNT} damaged graphs: {dict(ends)}")
    assert ends["view", 2] > COUNT / 4


# Tensors.


@pytest.fixture
def weights(folder):
    """Those of `models.py:line`, in a file of PyTorch's."""
    torch.manual_seed(1)
    torch.save(
        {"linear.weight": torch.randn(3, 4), "linear.bias": torch.randn(3)}, folder / "good.pt"
    )
    return folder / "good.pt"


def packed_again(source, path, change=lambda name, data: data, how=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", how) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))


def test_compressed_weights_are_what_they_were(hx, folder, weights):
    """A file cannot be mapped where its tensors are compressed."""
    packed_again(weights, folder / "small.pt")
    files = []
    for name in ("good", "small"):
        words = ["-w", f"{name}.pt", "-o", f"{name}.onnx", "-i", "x=float32[2,4]"]
        for meta in ([], ["--meta"]):
            assert hx("export", "models.py:line", *words, *meta).code == 0
            files.append((folder / f"{name}.onnx").read_bytes())
    assert len(set(files)) == 1


@pytest.mark.parametrize("meta", [[], ["--meta"]])
def test_a_tensor_that_is_cut_short_is_not_filled_with_what_follows(hx, folder, weights, meta):
    def cut(name, data):
        return data[:8] if "/data/" in name else data

    packed_again(weights, folder / "cut.pt", cut, zipfile.ZIP_STORED)
    words = ["-w", "cut.pt", "-o", "m.onnx", "-i", "x=float32[2,4]", *meta]
    done = clear(hx("export", "models.py:line", *words))
    assert done.code == 2 and "cut.pt" in done.err
    assert not (folder / "m.onnx").exists()


def nested():
    found = {}
    found["x"] = found
    return found


@pytest.mark.parametrize(
    "made",
    [
        {1: torch.ones(2, 4)},
        {EVIL: torch.ones(2, 4)},
        nested(),
        {"x": torch.ones(1).expand(1 << 45)},
        3,
    ],
    ids=["a number for a name", "an evil name", "itself", "absurdly large", "no tensor"],
)
def test_what_is_in_a_file_is_told_if_it_will_not_do(hx, folder, made):
    torch.save(made, folder / "odd.pt")
    done = clear(hx("export", "models.py:line", "-w", "odd.pt", "-o", "m.onnx"))
    assert done.code == 2 and "odd.pt" in done.err
    if made != 3:
        done = clear(hx("export", "models.py:line", "--inputs", "odd.pt", "-o", "m.onnx"))
        assert done.code == 2
    assert not (folder / "m.onnx").exists()


def test_arrays_that_are_no_tensors_are_named(hx, folder):
    np.savez(folder / "words.npz", x=np.array(["a", "b"]))
    done = clear(hx("export", "models.py:line", "--inputs", "words.npz", "-o", "m.onnx"))
    assert done.code == 2 and "'x' holds <U1, which torch has no tensor for" in done.err


def test_an_array_in_the_other_byte_order_is_read(hx, folder):
    np.savez(folder / "other.npz", x=np.ones((2, 4), ">f4"))
    assert hx("export", "models.py:line", "--inputs", "other.npz", "-o", "m.onnx").code == 0


BOMB = """
import resource, sys
from pathlib import Path
import torch
from hx import errors
from hx.weights import tensor_files
from hx.bench.memory import peak

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

def read():
    try:
        tensor_files.read(Path(sys.argv[1]))
    except errors.UsageError as error:
        print(error.why)

print(peak(read))
"""


@pytest.mark.parametrize("kind", ["npz", "pt"])
def test_what_unpacks_to_more_than_the_memory_is_refused_at_once(folder, weights, kind):
    """A few megabytes that claim, and hold, more than there is."""
    path, head = folder / f"bomb.{kind}", io.BytesIO()
    np.lib.format.write_array_header_2_0(
        head, {"shape": (5 << 28,), "fortran_order": False, "descr": "<f4"}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        if kind == "pt":
            with zipfile.ZipFile(weights) as old:
                for name in old.namelist():
                    if not name.endswith("data/0"):
                        archive.writestr(name, old.read(name))
        with archive.open("x.npy" if kind == "npz" else "good/data/0", "w", force_zip64=True) as x:
            x.write(head.getvalue() if kind == "npz" else b"")
            for _ in range(5 << 6):
                x.write(bytes(1 << 24))
    assert path.stat().st_size < 50 << 20
    words = [sys.executable, "-c", BOMB, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=True)
    why, spent = done.stdout.splitlines()
    assert "it unpacks to 5.4 GB" in why and int(spent) < 200 << 20


# Words.


def test_digits_of_every_script_are_no_axes(hx):
    for axis in ("²", "--1", "1_0", "", "x"):
        done = clear(hx("export", "models.py:with_inputs", "-d", f"x:{axis}=b", "-o", "m.onnx"))
        assert done.code == 2, axis


def test_an_error_as_data_keeps_every_letter(hx, folder):
    torch.save({EVIL: torch.ones(2)}, folder / "odd.pt")
    done = hx("export", "models.py:line", "-w", "odd.pt", "-o", "m.onnx", "--json")
    assert EVIL in json.loads(done.out)["error"]["why"]

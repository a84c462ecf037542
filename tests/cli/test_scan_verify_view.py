"""`hx scan`, `hx verify` and `hx view`: what they say of models and of files."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file


def test_scan_lists_what_is_covered_missing_and_escapes(hx):
    done = hx("scan", "models.py:unknown")
    assert done.code == 5 and "missing" in done.out and "models.py:" in done.out
    fine = hx("scan", "hx.demo:model")
    assert fine.code == 0 and "conv2d" in fine.out.lower() and "0 missing" in fine.err
    leaves = hx("scan", "models.py:branches")
    assert leaves.code == 0 and "open" in leaves.out and "models.py:" in leaves.out
    assert hx("scan", "models.py:unknown", "--json").json["covered"] is False


def test_what_is_missing_comes_with_its_like_and_a_command_that_works(hx, folder):
    (folder / "two.py").write_text(
        "import torch\n"
        "@torch.library.custom_op('acme_two::twisted', mutates_args=())\n"
        "def twisted(x: torch.Tensor, turns: int, tight: bool = True) -> torch.Tensor:\n"
        "    return torch.from_numpy(x.numpy() + turns)\n"
        "def whirl(x, *, speed=1.0): return twisted(x, 2)\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return twisted(x, 2) + torch.ops.acme_two.other(x, x)\n"
        "library = torch.library.Library('acme_two', 'FRAGMENT')\n"
        "library.define('other(Tensor a, Tensor b, int[2] size=1) -> Tensor')\n"
        "library.impl('other', lambda a, b, size=1: torch.from_numpy(a.numpy()), 'CPU')\n"
        "def make(): return M(), (torch.rand(2, 3),)\n"
    )
    (folder / "near.py").write_text(
        "from hx import converter\n"
        "@converter('acme_three::twister')\n"
        "def twister(op, input): return input\n"
    )
    done = hx("scan", "two:make")
    [command] = [line for line in done.out.splitlines() if line.startswith("one pack for all: ")]
    words = command.partition(": hx ")[2].split()
    assert hx(*words).code == 0
    written = (folder / "my-pack" / "src" / "my_pack" / "converters.py").read_text()
    for head in ("def twisted(op, x, turns, tight=True):", "def other(op, a, b, size=1):"):
        assert head in written
    assert hx("export", "two:make", "-o", "m.onnx").err.count(command.partition(": ")[2]) == 1
    tried = hx("converters", "try", "near.py", "two:make")
    assert tried.code == 5 and "the nearest:       acme_three::twister" in tried.err


def test_an_operator_whose_converter_declines_is_told_with_that(hx, folder):
    (folder / "own.py").write_text(
        "import torch\n"
        "@torch.library.custom_op('acme_four::two', mutates_args=())\n"
        "def two(x: torch.Tensor) -> torch.Tensor:\n"
        "    return torch.from_numpy(x.numpy() + 2)\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return two(x).to(torch.float32)\n"
        "def make(): return M(), (torch.rand(2, 3),)\n"
    )
    assert "the nearest" not in hx("scan", "own:make").out  # of two letters, `to` is like anything
    (folder / "mine.py").write_text(
        "from hx import converter\n"
        "@converter('acme_four::two')\n"
        "def two(op, *args, **kwargs): return NotImplemented\n"
    )
    tried = hx("converters", "try", "mine.py", "own:make")
    assert tried.code == 5 and "hx packs new" not in tried.err
    assert "acme_four::two" in tried.err and "nearest" not in tried.err
    assert "its converter (mine.py, mine.py:2) declined this call" in tried.err


def test_scan_lists_what_goes_through_numpy_and_comes_back(hx, folder):
    (folder / "faraway.py").write_text(
        "import numpy, torch\n"
        "def far(x): return torch.from_numpy(numpy.convolve(x.numpy(), [1, 2], 'same'))\n"
        "def log(x): return torch.from_numpy(numpy.sort(x.numpy()))\n"
        "def steps(x): return torch.from_numpy(numpy.arange(x.shape[0], dtype='float32'))\n"
        "class M(torch.nn.Module):\n"
        "    def __init__(self, how): super().__init__(); self.how = how\n"
        "    def forward(self, x): return self.how(x) * 2 + 1\n"
        "def lost(): return M(far), (torch.rand(6),)\n"
        "def kept(): return M(lambda x: (log(x), steps(x))[1]), (torch.rand(6),)\n"
    )
    scanned = hx("scan", "faraway.py:lost")
    assert scanned.code == 5 and "1 missing" in scanned.err
    assert "write a converter: hx packs new my-pack --target faraway.far" in scanned.out
    assert hx("export", "faraway.py:lost", "-o", "m.onnx").code == 4
    # What is logged alone is in no output, and another length never comes.
    for words in ("scan",), ("export", "-o", "m.onnx"):
        assert hx(words[0], "faraway.py:kept", *words[1:]).code == 0


def test_scan_says_that_export_records_both_ways(hx, folder):
    (folder / "asks.py").write_text(
        "import torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return x * 2 if x.sum() > 0 else x - 1\n"
        "def make(): return M(), (torch.ones(3),)\n"
    )
    done = hx("scan", "asks.py:make")
    assert "export records the other ways, too" in done.err
    assert hx("export", "asks.py:make", "-o", "m.onnx").code == 0
    assert "If" in hx("view", "m.onnx", "--no-browser").out


def test_verify_knows_a_right_file_from_a_wrong_one(hx, folder):
    words = ["-i", "x=float32[batch,4]"]
    torch.manual_seed(0)
    save_file({"linear.weight": torch.randn(3, 4), "linear.bias": torch.zeros(3)}, "a.safetensors")
    save_file({"linear.weight": torch.randn(3, 4), "linear.bias": torch.zeros(3)}, "b.safetensors")
    assert hx("export", "models.py:line", "-o", "m.onnx", *words, "-w", "a.safetensors").code == 0
    right = hx("verify", "m.onnx", "models.py:line", *words, "-w", "a.safetensors")
    assert right.code == 0 and "batch=1" in right.out
    wrong = hx("verify", "m.onnx", "models.py:line", *words, "-w", "b.safetensors")
    assert wrong.code == 4 and "recorded inputs: wrong" in wrong.out
    assert "the weights of the model are not those of the file: linear.weight; give it" in wrong.err
    assert hx("verify", "m.onnx", "models.py:line", *words, "--json", "-w", "a.safetensors").json[
        "ok"
    ]


def test_verify_says_what_is_off_before_it_compares(hx, folder):
    made = hx("export", "hx.demo:model", "-o", "m.onnx", "--dtype", "float16", "--external-data")
    assert made.code == 0
    other = hx("verify", "m.onnx", "hx.demo:model")
    assert other.code == 2 and "the file takes image float16[2,3,16,16]" in other.err
    assert "--dtype float16 casts the model and its inputs" in other.err
    assert hx("verify", "m.onnx", "hx.demo:model", "--dtype", "float16").code == 0
    swapped = hx("verify", "hx.demo:model", "m.onnx")
    assert swapped.code == 2
    assert "the file comes first: hx verify m.onnx hx.demo:model" in swapped.err


def test_verify_of_a_file_without_its_data_is_one_message(hx, folder):
    words = ["-o", "m.onnx", "-i", "input=float32[2,512]", "--external-data"]
    (folder / "wide.py").write_text("import torch\ndef make(): return torch.nn.Linear(512, 512)\n")
    assert hx("export", "wide.py:make", *words).code == 0
    for data in folder.glob("m.*.data"):
        data.unlink()
    done = hx("verify", "m.onnx", "wide.py:make", "-i", "input=float32[2,512]")
    assert done.code == 2 and "that is no file in the folder of its model" in done.err


@pytest.mark.filterwarnings("ignore:You are using the legacy TorchScript-based ONNX export")
def test_verify_takes_a_file_of_another_exporter(hx, folder):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    torch.save(model.state_dict(), "w.pt")
    (folder / "plain.py").write_text(
        "from torch import nn\ndef make(): return nn.Sequential(nn.Linear(4, 3), nn.ReLU())\n"
    )
    torch.onnx.export(model, (torch.randn(2, 4),), "o.onnx", dynamo=False, input_names=["data"])
    done = hx("verify", "o.onnx", "plain.py:make", "-w", "w.pt", "-i", "float32[2,4]")
    assert done.code == 0, done.told


def test_verify_says_which_inputs_file_and_model_have(hx, folder):
    (folder / "scaled.py").write_text(
        "from torch import nn\n"
        "class M(nn.Module):\n"
        "    def forward(self, image, scale=None):\n"
        "        return image + 1 if scale is None else image * scale\n"
        "def make(): return M()\n"
    )
    both = ["-i", "image=float32[n,4]", "-i", "scale=float32[1]"]
    for given, file in (both, "both.onnx"), (both[:2], "one.onnx"):
        assert hx("export", "scaled.py:make", "-o", file, *given).code == 0
    less = hx("verify", "both.onnx", "scaled.py:make", *both[:2])
    assert less.code == 2 and "takes image, scale; the model was given image\n" in less.err
    assert 'what the file has: -i "scale=float32[1]"' in less.err
    more = hx("verify", "one.onnx", "scaled.py:make", *both)
    assert more.code == 2 and "verify it without scale" in more.err


def test_view_shows_inputs_outputs_and_operators(hx):
    hx("export", "hx.demo:model", "-o", "m.onnx")
    done = hx("view", "m.onnx", "--no-browser")
    assert done.code == 0 and "image float32[2,3,16,16]" in done.out and "Conv" in done.out
    assert hx("view", "m.onnx", "--json").json["operators"]["Conv"] == 3


@pytest.mark.parametrize("content", [b"", b"not onnx at all", None])
def test_view_of_what_is_no_model_is_one_message(hx, folder, content):
    if content is not None:
        (folder / "x.onnx").write_bytes(content)
    done = hx("view", "x.onnx")
    assert done.code == 2 and done.err.startswith("error[")


def test_verify_says_of_a_file_of_another_model_that_it_takes_other_inputs(hx, folder):
    words = ["-i", "x=float32[batch,4]"]
    assert hx("export", "models.py:line", "-o", "m.onnx", *words).code == 0
    done = hx("verify", "m.onnx", "models.py:line", "-i", "x=float32[4]")
    assert done.code == 2 and "the file takes x float32[batch,4]" in done.err
    assert "was given float32[4]" in done.err


def test_a_model_that_counts_in_a_closure_is_verified_at_its_first_call(hx, folder):
    (folder / "counting.py").write_text(
        "import torch\n"
        "def build():\n"
        "    calls = 0\n"
        "    class Net(torch.nn.Module):\n"
        "        def forward(self, x):\n"
        "            nonlocal calls\n"
        "            calls += 1\n"
        "            return x * calls\n"
        "    return Net(), (torch.ones(2, 3),)\n"
    )
    done = hx("export", "counting.py:build", "-o", "m.onnx")
    assert done.code == 0 and "counting.py:7: the model answers its next call" in done.err
    assert hx("verify", "m.onnx", "counting.py:build").code == 0


def test_verify_tells_where_a_file_passes_nan_by(hx, folder):
    (folder / "pools.py").write_text(
        "import torch\ndef make(): return torch.nn.MaxPool1d(3, 1, 1), (torch.randn(2, 3, 8),)\n"
    )
    assert hx("export", "pools.py:make", "-o", "m.onnx").code == 0
    done = hx("verify", "m.onnx", "pools.py:make")
    assert done.code == 0 and "on NaN and infinite inputs" in done.err

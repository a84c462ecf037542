"""Mistakes that a new user makes, and what hx says: the line of the user, and the next step."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from safetensors.torch import save_file

MINE = """
import torch
from torch import nn


class Sized(nn.Module):
    def __init__(self, size, classes):
        super().__init__()
        self.fc = nn.Linear(size, classes)

    def forward(self, x):
        assert x.shape[1] == 3, "three channels"
        return self.fc(x)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4)

    def forward(self, ids):
        return self.words(ids)


class Lacks(nn.Module):
    def forward(self, x):
        return self.head(x)


class Silent(nn.Module):
    def forward(self, x):
        print(x.shape)


class Misspelt(nn.Module):
    def forwrad(self, x):
        return x


class Early(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(3, 4)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, image):
        return self.norm(image)


class Away(nn.Module):
    def forward(self, x):
        return x.cuda()


half = lambda x: x / 2
def build_nothing(): nn.Linear(3, 4)
def build_dict(): return {"model": nn.Linear(3, 4)}
def build_swapped(): return (torch.ones(2, 3),), nn.Linear(3, 4)
def build_list(): return [nn.Linear(3, 4), torch.ones(2, 3)]
def build_inputs(): return (torch.ones(2, 3),)
def build_file(): return torch.load("checkpoints/best.pt")
def build_away(): raise RuntimeError("No CUDA GPUs are available")
def build_many(): return nn.Linear(3, 4), (torch.ones(2, 3), torch.ones(1))
def three(): return Sized(3, 4)

weights = nn.Linear(3, 4).state_dict()
"""
ARGUMENTS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
parser.parse_args()
"""


@pytest.fixture
def mine(folder):
    (folder / "mine.py").write_text(MINE)
    (folder / "arguments.py").write_text(ARGUMENTS)
    (folder / "words.py").write_text("import sys\nwidth = int(sys.argv[1])\n")
    (folder / "notes.ipynb").write_text("{}")
    (folder / "made.onnx").write_bytes(b"")
    weights = torch.nn.Linear(3, 4).state_dict()
    torch.save(weights, folder / "weights.pt")
    torch.save({"optimizer": {}}, folder / "state.pt")
    save_file(weights, folder / "weights.safetensors")
    torch.jit.script(torch.nn.Linear(3, 4)).save(folder / "scripted.pt")
    return folder


SPECS = [
    ("mine.py:Sized", "def build(): return Sized(size=..., classes=...)"),
    ("mine.py:weights", "it holds weights: name the model"),
    ("mine.py:build_nothing", "let it end with `return model`"),
    ("mine.py:build_dict", "the module in it is 'model': return that"),
    ("mine.py:build_swapped", "is a tuple of tuple and Linear"),
    ("mine.py:build_list", "return a tuple, the module first: (module, inputs)"),
    ("mine.py:build_inputs", "return (module, inputs)"),
    ("Words", "did you mean mine.py:Words?"),
    ("resnet18", "did you mean torchvision:resnet18"),
    ("mine.py:half", "def build(): return half(x=...); if it is the model itself, wrap it"),
    ("models/mine.py:three", "did you mean mine.py?"),
    ("hx.demo", "it has Demo, model: say which, as hx.demo:NAME"),
    ("weights.pt", "hx export FILE.py:NAME -w weights.pt"),
    ("weights.pt:Sized", "weights.pt holds weights, not the code of a model"),
    ("weights.safetensors", "hx export FILE.py:NAME -w weights.safetensors"),
    ("scripted.pt", "torch.jit.load('scripted.pt')"),
    ("made.onnx", "made.onnx is an ONNX file"),
    ("notes.ipynb:model", "notes.ipynb is a notebook"),
    ("https://huggingface.co/some/model", "did you mean hf:some/model?"),
]


@pytest.mark.parametrize(("spec", "told"), SPECS)
def test_what_a_spec_leads_to_is_told_with_what_to_write(hx, mine, spec, told):
    done = hx("export", spec, "-o", "m.onnx")
    assert done.code == 2 and done.err.startswith("error[HX202]: "), done.told
    assert told in done.err


def test_a_model_that_was_saved_whole_is_told_apart_from_weights(hx, mine):
    sys.path.insert(0, str(mine))
    import mine as module

    torch.save(module.Sized(3, 4), "whole.pt")
    done = hx("export", "whole.pt", "-o", "m.onnx")
    assert done.code == 2 and "torch.load('whole.pt', weights_only=False)" in done.err


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("mine.py:build_file", ("build_file(): return torch.load(", "a relative path starts in")),
        ("arguments.py:model", ("arguments.py:5", "parser.parse_args()", "hx watch FILE ARGS")),
        ("words.py:model", ("words.py:2", "list index out of range", "hx watch FILE ARGS")),
        ("part.py:model", ("part.py:1", "folder is in the current folder: set PYTHONPATH=.")),
    ],
)
def test_code_that_raises_is_told_with_its_line_and_a_next_step(hx, mine, spec, told):
    (mine / "folder").mkdir()
    (mine / "part.py").write_text("import folder.sub\n")
    done = hx("export", spec, "-o", "m.onnx")
    assert done.code == 1, done.told
    for each in told:
        assert each in done.err
    assert str(mine) not in done.err.partition("\n")[2].partition("hint:")[0]
    assert sys.argv[:2] == ["hx", "export"]


def test_a_machine_without_a_gpu_is_told(hx, mine, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = hx("export", "mine.py:build_away", "-o", "m.onnx")
    assert done.code == 1 and "torch sees no CUDA device here" in done.err


@pytest.mark.parametrize("command", ["export", "scan", "inspect"])
def test_what_a_model_raises_is_told_with_its_line_and_inputs(hx, mine, command):
    done = hx(command, "mine.py:three", "-i", "x=float32[2,5]")
    assert done.code == 1 and "error[HX109]: the model raised AssertionError: three" in done.err
    assert "mine.py:12" in done.err and "assert x.shape[1] == 3" in done.err
    assert "the inputs were x float32[2,5]" in done.err
    lacks = hx(command, "mine.py:Lacks", "-i", "x=float32[2,5]")
    assert "has no attribute 'head'" in lacks.err and "return self.head(x)" in lacks.err


def test_a_dtype_that_a_module_refuses_is_not_told_as_one_of_onnx(hx, mine):
    done = hx("export", "mine.py:Words", "-i", "ids=float32[2,5]", "-o", "m.onnx")
    assert done.code == 1 and "refused ids float32[2,5] in words (Embedding)" in done.err
    assert "Gather" not in done.err


def test_a_layer_of_torch_that_raises_refuses_its_inputs(hx, mine):
    flat = hx("export", "mine.py:Normed", "-i", "image=float32[3,4,4]", "-o", "m.onnx")
    assert flat.code == 1 and "refused image float32[3,4,4] in norm (BatchNorm2d)" in flat.err
    assert "mine.py:51" in flat.err and "why:   ValueError: expected 4D input" in flat.err
    double = hx("scan", "mine.py:three", "-i", "x=float64[2,3]")
    assert "hint:  the weights are float32: give x in float32, too" in double.err


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("Silent", 31, "the model returned None, and no tensor"),
        ("Misspelt", 35, "Misspelt has no forward"),
        ("Away", 56, "torch sees no CUDA device here: write x.to(other.device)"),
        ("Early", 42, "call super().__init__() first"),
    ],
)
def test_a_class_that_is_not_finished_is_told_with_its_line(
    hx, mine, monkeypatch, name, line, told
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = hx("export", f"mine.py:{name}", "-i", "x=float32[2,3]", "-o", "m.onnx")
    assert done.code in (1, 2) and told in done.err, done.told
    assert f"where: mine.py:{line}" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["export", "hx.demo:model", "m.onnx"], "to write there: -o m.onnx"),
        (["export", "hx.demo:model", "--report"], "hint:  hx export --help"),
        (["diff", "a.onnx"], "as in: hx diff before.onnx after.onnx"),
        (["packs", "new", "hx-acme"], "as in: hx packs new hx-mylib --target"),
        (["explain", "HX999"], "hx explain lists all codes"),
        (["export", "mine.py:three", "--others", "x.npz"], "did you mean --inputs?"),
        (["export", "mine.py:three", "--opset_version", "17"], "did you mean --opset?"),
        (["export", "mine.py:three", "--fp16"], "did you mean --dtype float16?"),
        (["export", "mine.py:three", "-i", "x=f32[2,3]", "-d", "y:0=n"], "inputs are x"),
        (
            ["export", "mine.py:Normed", "-i", "image=f32[2,3,4,4]", "-d", "imgae:0=n"],
            "did you mean image?",
        ),
        (["export", "mine.py:build_many"], "why:   its forward takes input"),
        (
            ["export", "mine.py:three", "-i", "x=f32[2,3]", "-w", "state.pt"],
            "torch.save(model.state_dict(), PATH)",
        ),
        (["view", "maed.onnx"], "did you mean made.onnx?"),
        (["converters", "show", "Cnov2d"], "did you mean torch.nn.functional.conv2d?"),
        (["converters", "show", "nn.Sotfmax"], "did you mean torch.nn.functional.softmax"),
        (["watch", "mine.py:three"], "hx watch mine.py"),
        (["watch", "mine.px"], "hx watch SCRIPT.py"),
        (["watch", "notes.ipynb"], "notes.ipynb is a notebook"),
        (["watch", "arguments.py"], "python arguments.py ARGS"),
        (["export", "mine.py:three", "-i", "y=f32[2,3]"], 'write --input "x=float32[...]"'),
        (["export", "mine.py:three", "-i", "x=f32[2,3]", "-w", "weihgts.pt"], "mean weights.pt?"),
        (["bench", "made.onnx"], "error[HX202]: made.onnx is an ONNX file"),
    ],
)
def test_a_command_line_that_is_wrong_is_told_with_a_right_one(hx, mine, words, told):
    done = hx(*words)
    assert done.code == 2 and told in done.err, done.told


def test_a_code_may_be_given_as_a_number(hx):
    assert hx("explain", "109").out == hx("explain", "HX109").out


def test_a_short_name_of_a_dtype_is_known(hx):
    assert hx("export", "hx.demo:model", "-o", "m.onnx", "--dtype", "fp16").code == 0


def test_a_file_of_one_size_is_not_wrong_at_another(hx):
    assert hx("export", "hx.demo:model", "-o", "m.onnx").code == 0
    done = hx("verify", "m.onnx", "hx.demo:model", "-i", "image=float32[1,3,16,16]")
    assert done.code == 2 and "in the file it has size 2 on axis 0, and no other" in done.err
    right = hx("verify", "m.onnx", "hx.demo:model")
    assert right.code == 0 and "max error" in right.out and "(limit" in right.out


@pytest.mark.parametrize("library", ["typer", "onnxruntime"])
def test_a_library_that_hx_needs_is_told_with_the_command_that_installs_it(
    terminal, folder, library
):
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(
        f"import sys; sys.modules[{library!r}] = None"
    )
    done = terminal("export", "hx.demo:model", "-o", "m.onnx", "--json")
    assert done.code == 1 and done.err.startswith(f"error[HX110]: hx needs {library}")
    assert f"-m pip install {library}" in done.err
    assert json.loads(done.out)["error"]["code"] == "HX110"


def test_a_library_that_a_model_needs_is_not_one_of_hx(hx, folder):
    text = (
        "import torch\nclass Late(torch.nn.Module):\n"
        "    def forward(self, x):\n        import no_such_library\n        return x\n"
    )
    (folder / "late.py").write_text(text)
    done = hx("export", "late.py:Late", "-i", "x=float32[2]", "-o", "m.onnx")
    assert done.code == 1 and "error[HX109]: the model raised ModuleNotFoundError" in done.err
    assert "late.py:4" in done.err and str(folder) not in done.err

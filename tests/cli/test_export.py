"""`hx export`: what it takes, what it writes, what it says; and `scan`, `verify`, `view`."""

from __future__ import annotations

import html
import json
import re

import numpy
import onnx
import pytest
import torch
import vision
from safetensors.torch import save_file


def dims(path, name="x"):
    [value] = [v for v in onnx.load(path).graph.input if v.name == name]
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_the_demo_model_exports_in_one_line(hx, folder):
    done = hx("export", "hx.demo:model", "-o", "demo.onnx")
    assert done.code == 0 and done.out == ""
    for word in ("demo.onnx", "8 nodes", "opset 20", "verified on recorded, fresh inputs", "ok"):
        assert word in done.err
    onnx.checker.check_model(folder / "demo.onnx", full_check=True)


@pytest.mark.parametrize(
    "spec",
    ["models.py:line", "models.py:Line", "models.py:ready", "models:line", "./models.py:line"],
)
def test_a_model_may_be_a_factory_a_class_or_a_module(hx, folder, spec):
    assert hx("export", spec, "-o", "m.onnx", "-i", "x=float32[2,4]").code == 0
    assert dims("m.onnx") == [2, 4]


@pytest.mark.parametrize("spec", ["with_inputs", "with_names", "Holder"])
def test_a_model_may_bring_its_own_inputs(hx, spec):
    assert hx("export", f"models.py:{spec}", "-o", "m.onnx").code == 0
    assert dims("m.onnx") == [2, 4]


def test_a_word_is_a_dim_that_may_change(hx):
    done = hx("export", "models.py:line", "-o", "m.onnx", "--input", "x=float32[batch,4]")
    assert done.code == 0 and "batch=1" in done.err
    assert dims("m.onnx") == ["batch", 4]


@pytest.mark.parametrize(
    "words", [["-i", "x=float32[batch>=3<=9,4]"], ["-i", "x=float32[5,4]", "-d", "x:0=batch>=3<=9"]]
)
def test_a_dim_may_have_limits_within_which_it_is_proved(hx, words):
    done = hx("export", "models.py:line", "-o", "m.onnx", *words)
    tried = {int(size) for size in re.findall(r"batch=(\d+)", done.err)}
    assert done.code == 0 and tried and tried <= set(range(3, 10))
    assert dims("m.onnx") == ["batch", 4] and "3 <= batch <= 9" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["-i", "x=float32[batch%4>=8,4]"],
        ["-i", "x=float32[batch=16>=8%4,4]"],
        ["-i", "x=float32[8,4]", "-d", "x:0=batch % 4 >= 8"],
    ],
    ids=str,
)
def test_a_dim_may_be_a_multiple(hx, words):
    done = hx("export", "models.py:Holder", "-o", "m.onnx", *words)
    tried = {int(size) for size in re.findall(r"batch=(\d+)", done.err)}
    assert done.code == 0 and len(tried) == 2 and all(n % 4 == 0 and n >= 8 for n in tried)
    assert dims("m.onnx") == ["batch", 4] and "8 <= batch, a multiple of 4" in done.err
    again = hx("verify", "m.onnx", "models.py:Holder", *words)
    assert again.code == 0 and "8 <= batch, a multiple of 4" in again.err
    assert {int(size) for size in re.findall(r"batch=(\d+)", again.out)} == tried


def test_so_is_an_axis_that_is_named_for_a_given_input(hx):
    done = hx("export", "models.py:with_inputs", "-o", "m.onnx", "--dynamic", "x:0=rows")
    assert done.code == 0 and dims("m.onnx") == ["rows", 4]


def test_an_input_without_a_name_is_the_next_one(hx):
    words = ["-i", "float32[n,4]", "-i", "float32[3]"]
    assert hx("export", "models.py:line", "-o", "m.onnx", *words).code == 0
    assert dims("m.onnx") == ["n", 4] and dims("m.onnx", "scale") == [3]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt"])
def test_inputs_come_from_files(hx, folder, suffix):
    path = folder / f"in{suffix}"
    x, scale = torch.randn(5, 4), torch.ones(3)
    if suffix == ".npz":
        numpy.savez(path, x=x.numpy(), scale=scale.numpy())
    elif suffix == ".pt":
        torch.save({"x": x, "scale": scale}, path)
    else:
        save_file({"x": x, "scale": scale}, path)
    assert hx("export", "models.py:line", "-o", "m.onnx", "--inputs", path).code == 0
    assert dims("m.onnx") == [5, 4] and dims("m.onnx", "scale") == [3]


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", "nested"])
def test_weights_come_from_files(hx, folder, suffix):
    weights = {"linear.weight": torch.full((3, 4), 0.5), "linear.bias": torch.zeros(3)}
    path = folder / f"w{'.pt' if suffix == 'nested' else suffix}"
    if suffix == ".safetensors":
        save_file(weights, path)
    else:
        torch.save({"state_dict": {f"module.{k}": v for k, v in weights.items()}}
                   if suffix == "nested" else weights, path)  # fmt: skip
    words = ["-i", "x=float32[2,4]", "--weights", path]
    assert hx("export", "models.py:line", "-o", "m.onnx", *words).code == 0
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load("m.onnx").graph.initializer}
    assert (stored["linear.weight"] == 0.5).all()


def test_layers_opset_and_external_data(hx, folder):
    words = ["--output-layer", "body", "--opset", "17", "--external-data"]
    done = hx("export", "hx.demo:model", "-o", "m.onnx", *words)
    assert done.code == 0, done.err
    model = onnx.load("m.onnx", load_external_data=False)
    assert model.opset_import[0].version == 17
    assert [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim] == [2, 8, 16, 16]
    assert len(list(folder.glob("m.*"))) == 2


def test_json_is_data_with_a_schema(hx):
    done = hx("export", "hx.demo:model", "-o", "m.onnx", "--json", "-q")
    assert done.json["schema"] == 1 and done.json["ok"] is True
    assert done.json["report"]["nodes"] == 8 and done.json["report"]["proof"]["ok"]
    assert done.err == ""


def test_every_node_can_be_looked_at(hx):
    done = hx("export", "hx.demo:model", "-o", "m.onnx", "--check-every-node")
    head, *rows = done.out.splitlines()
    assert head.split() == ["NODE", "RESULT", "ERROR", "ALLOWED", "STATE", "CALL", "LINE"]
    assert len(rows) == 8 and all(" ok " in row and "demo.py:" in row for row in rows)
    found = hx("export", "hx.demo:model", "-o", "m.onnx", "--check-every-node", "--json").json
    assert found["report"]["node_checks"][0]["op"] == "Conv"


def test_reports_are_written_beside_the_graph_also_of_an_export_that_failed(hx, folder):
    words = ["--report", "r.html", "--report", "r.md", "--report", "r.json"]
    done = hx("export", "hx.demo:model", "-o", "m.onnx", *words)
    assert done.code == 0 and "r.html, r.md, r.json" in done.err
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    assert json.loads((folder / "r.json").read_text())["path"].endswith("m.onnx")
    assert hx("export", "models.py:wrong", "-o", "w.onnx", "--report", "w.md").code == 4
    assert "**Wrong.**" in (folder / "w.md").read_text()
    assert hx("export", "models.py:unknown", "-o", "w.onnx", "--report", "u.md").code == 5
    assert "torch.linalg.eig" in (folder / "u.md").read_text()
    assert not list(folder.glob("w.onnx"))
    for name, told in (("r.pdf", "ends in .html"), ("no/r.md", "there is no folder")):
        done = hx("export", "hx.demo:model", "-o", "m.onnx", "--report", name)
        assert done.code == 2 and told in done.err


@pytest.mark.parametrize(
    "words, code, told",
    [
        (["models.py:broken"], 1, "the model is not in the mood"),
        (["models.py:fails"], 1, "no such weights"),
        (["models.py:nothing"], 2, "has no 'nothing'"),
        (["models.py:line", "-i", "x=float32[2,5]"], 1, "mat1 and mat2"),
        (["models.py:branches", "--strict"], 1, "left the graph"),
    ],
    ids=["raises", "cannot be made", "is not there", "does not take it", "is refused"],
)
def test_every_failure_is_reported(hx, folder, words, code, told):
    forms = ("html", "md", "json")
    for form in forms:
        (folder / f"r.{form}").write_text("of an earlier export")
    reports = [word for form in forms for word in ("--report", f"r.{form}")]
    done = hx("export", *words, "-o", "m.onnx", *reports)
    assert done.code == code and told in done.err
    found = json.loads((folder / "r.json").read_text())
    assert found["state"] == "failed" and told in found["failed"] and found["path"] is None
    for form in ("html", "md"):
        text = html.unescape((folder / f"r.{form}").read_text())
        assert "Not exported:" in text and told in text


def test_a_rejected_file_is_kept_when_asked_for(hx, folder):
    assert hx("export", "models.py:wrong", "-o", "m.onnx").code == 4
    assert not list(folder.glob("*.onnx"))
    done = hx("export", "models.py:wrong", "-o", "m.onnx", "--keep-rejected")
    assert done.code == 4 and "m.rejected.onnx" in done.err
    assert [path.name for path in folder.glob("*.onnx")] == ["m.rejected.onnx"]


BAD = [
    ("nowhere:model", [], 2, "there is no module 'nowhere'"),
    ("torchvison:resnet18", [], 2, "did you mean torchvision:resnet18?"),
    ("models.py:lyne", [], 2, "did you mean line?"),
    ("models.py", [], 2, "does not name a model"),
    ("model.py:line", [], 2, "did you mean models.py?"),
    ("models.py:needs", [], 2, "the function needs needs size"),
    ("models.py:fails", [], 1, "KeyError: 'no such weights'"),
    ("models.py:not_a_model", [], 2, "is an int, not a torch.nn.Module"),
    ("models.py:number", [], 2, "is an int, not a torch.nn.Module"),
    ("models.py:line", [], 2, '--input "x=float32[batch,...]"'),
    ("models.py:line", ["-i", "y=float32[2,4]"], 2, "its forward takes x, scale"),
    ("models.py:line", ["-i", "x=float33[2,4]"], 2, "did you mean float32?"),
    ("models.py:line", ["-i", "x=f32[2,4]", "-i", "f32[2]", "-i", "f32[2]"], 2, "takes 2 inputs"),
    ("models.py:with_inputs", ["--dynamic", "x:rows"], 2, "is not NAME:AXIS=WORD"),
    ("models.py:with_inputs", ["--dynamic", "x:0=n%0"], 2, "is not NAME:AXIS=WORD"),
    ("models.py:with_inputs", ["--dynamic", "x:0=n%7"], 2, "its limits: n is a multiple of 7"),
    ("models.py:with_inputs", ["--dynamic", "z:0=n"], 2, "inputs are x"),
    ("models.py:with_inputs", ["--dynamic", "x:7=n"], 2, "which has 2 axes"),
    ("models.py:with_inputs", ["--output-layer", "liner"], 2, "did you mean linear?"),
    ("models.py:with_inputs", ["--opset", "99"], 2, "99 is not from 13 to 26"),
    ("models.py:with_inputs", ["--inputs", "none.npz"], 2, "there is no file none.npz"),
    ("models.py:with_inputs", ["--inputs", "models.py"], 2, "hx does not read .py"),
    ("models.py:with_inputs", ["--use", "torch.relu"], 2, "is not TARGET=PACK"),
    ("models.py:with_inputs", ["--no-pack", "nobody"], 3, "no pack 'nobody' is installed"),
    ("models.py:with_inputs", ["--require", "hx>=99"], 3, "is installed"),
    ("models.py:line", ["-i", "x=float32[2,5]"], 1, "models.py:"),
    ("models.py:broken", [], 1, "the model is not in the mood"),
    ("models.py:branches", ["--strict"], 1, "models.py:"),
    ("models.py:wrong", [], 4, "fresh inputs: wrong"),
    ("models.py:unknown", [], 5, "hx packs new"),
]


@pytest.mark.parametrize(("spec", "words", "code", "told"), BAD)
def test_bad_input_gets_one_message_its_exit_code_and_leaves_nothing(
    hx, folder, spec, words, code, told
):
    (folder / "m.onnx").write_bytes(b"what was there before")
    before = sorted(path.name for path in folder.iterdir())
    done = hx("export", spec, "-o", "m.onnx", *words)
    assert done.code == code, done.told
    assert told in done.err
    assert (folder / "m.onnx").read_bytes() == b"what was there before"
    left = {path.name for path in folder.iterdir()} - set(before) - {"__pycache__"}
    assert not left


@pytest.mark.parametrize(
    ("output", "told"),
    [("none/m.onnx", "there is no folder"), (".", "that is a folder")],
)
def test_a_path_that_cannot_be_written_is_found_before_the_work(hx, output, told):
    done = hx("export", "models.py:fails", "-o", output)
    assert done.code == 2 and told in done.err


def pickled(path):
    torch.save({"linear.weight": Evil()}, path)


class Evil:
    def __reduce__(self):
        return (exec, ("import pathlib; pathlib.Path('run').touch()",))


def test_a_checkpoint_with_code_is_refused_and_not_run(hx, folder):
    pickled(folder / "evil.pt")
    words = ["-i", "x=float32[2,4]", "--weights", "evil.pt"]
    done = hx("export", "models.py:line", "-o", "m.onnx", *words)
    assert done.code == 2 and "pickled code" in done.err and "safetensors" in done.err
    assert not (folder / "run").exists() and not (folder / "m.onnx").exists()


def test_a_numpy_file_with_objects_is_refused(hx, folder):
    numpy.savez(folder / "in.npz", x=numpy.array([{}], dtype=object))
    done = hx("export", "models.py:line", "-o", "m.onnx", "--inputs", "in.npz")
    assert done.code == 2 and "pickled code" in done.err


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".npz"])
def test_a_truncated_file_is_refused(hx, folder, suffix):
    path = folder / f"w{suffix}"
    weights = {"linear.weight": torch.ones(3, 4), "linear.bias": torch.zeros(3)}
    if suffix == ".npz":
        numpy.savez(path, **{k: v.numpy() for k, v in weights.items()})
    else:
        (torch.save if suffix == ".pt" else save_file)(weights, path)
    path.write_bytes(path.read_bytes()[:-40])
    done = hx("export", "models.py:line", "-o", "m.onnx", "-w", path, "-i", "x=float32[2,4]")
    assert done.code == 2 and f"w{suffix} cannot be read" in done.err and "truncated" in done.err


def test_weights_that_do_not_fit_are_named(hx, folder):
    save_file({"linear.weight": torch.ones(3, 5), "extra": torch.ones(1)}, folder / "w.safetensors")
    words = ["-i", "x=float32[2,4]", "-w", "w.safetensors"]
    done = hx("export", "models.py:line", "-o", "m.onnx", *words)
    assert done.code == 2
    for text in ("missing: linear.bias", "unknown: extra", "[3, 5] in the file and [3, 4]"):
        assert text in done.err


def test_with_json_an_error_is_data_too(hx):
    done = hx("export", "models.py:unknown", "-o", "m.onnx", "--json")
    assert done.code == 5 and done.json["ok"] is False and done.json["exit_code"] == 5
    assert done.json["error"]["type"] == "MissingConverters"
    assert any("eig" in each["target"] for each in done.json["missing"])


def test_scan_lists_what_is_covered_missing_and_escapes(hx):
    done = hx("scan", "models.py:unknown")
    assert done.code == 5 and "missing" in done.out and "models.py:" in done.out
    fine = hx("scan", "hx.demo:model")
    assert fine.code == 0 and "conv2d" in fine.out.lower() and "0 missing" in fine.err
    leaves = hx("scan", "models.py:branches")
    assert leaves.code == 0 and "escape" in leaves.out and "models.py:" in leaves.out
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
    assert hx("verify", "m.onnx", "models.py:line", *words, "--json", "-w", "a.safetensors").json[
        "ok"
    ]


def test_verify_takes_a_file_of_another_exporter(hx, folder):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    torch.save(model.state_dict(), "w.pt")
    (folder / "plain.py").write_text(
        "from torch import nn\ndef make(): return nn.Sequential(nn.Linear(4, 3), nn.ReLU())\n"
    )
    torch.onnx.export(model, (torch.randn(2, 4),), "o.onnx", dynamo=False, input_names=["data"])
    done = hx("verify", "o.onnx", "plain.py:make", "-w", "w.pt", "-i", "float32[2,4]")
    assert done.code == 0, done.told


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
    assert done.code == 2 and done.err.startswith("error: ")


def test_settings_of_the_project_count(hx, folder):
    (folder / "pyproject.toml").write_text('[tool.hx]\nrequire = ["hx>=99"]\n')
    done = hx("export", "hx.demo:model", "-o", "m.onnx")
    assert done.code == 3 and "hx>=99" in done.err


def test_converters_from_a_loose_file_can_be_tried(hx, folder):
    (folder / "mine.py").write_text(
        "from hx import converter\n"
        "@converter('torch.Tensor.relu')\n"
        "def relu(op, input): return op.Max(input, 0.0)\n"
        "@converter('torch.cosh')\n"
        "def cosh(op, input): return op.Cosh(input)\n"
    )
    done = hx("converters", "try", "mine.py", "models.py:with_inputs", "-o", "m.onnx")
    assert done.code == 0, done.err
    assert "torch.Tensor.relu: 1 call converted by mine.py" in done.err
    assert "torch.cosh of mine.py was never called" in done.err
    assert "Max" in [node.op_type for node in onnx.load("m.onnx").graph.node]


def test_a_loose_file_may_bring_kernels_for_its_operators(hx, folder):
    (folder / "mine.py").write_text(
        "from hx import ReferenceKernel, converter\n"
        "@converter('torch.Tensor.relu')\n"
        "def relu(op, input): return op('com.acme', 'Positive', input)\n"
        "def hx_reference_kernels():\n"
        "    return [ReferenceKernel('com.acme', 'Positive', lambda x: x * (x > 0))]\n"
    )
    done = hx("converters", "try", "mine.py", "models.py:with_inputs", "--json")
    assert done.code == 0, done.err
    assert done.json["report"]["proof"]["ok"]
    assert "com.acme::Positive" in done.json["report"]["proof"]["runtime"]
    (folder / "mine.py").write_text(
        "from hx import converter\n"
        "def hx_reference_kernels(): return 1 / 0\n"
        "@converter('torch.Tensor.relu')\n"
        "def relu(op, input): return op.Max(input, 0.0)\n"
    )
    done = hx("converters", "try", "mine.py", "models.py:with_inputs")
    assert done.code == 3 and "mine.py: hx_reference_kernels() raises" in done.err


def test_why_a_tried_converter_was_not_asked_is_told_when_the_export_fails(hx, folder):
    (folder / "mine.py").write_text(
        "from hx import converter\n"
        "@converter('models.reluu')\n"
        "def misspelt(op, x): return op.Neg(x)\n"
        "@converter('models.opaque', since=21)\n"
        "def late(op, x): return op.Neg(x)\n"
    )
    with (folder / "models.py").open("a") as models:
        models.write(
            "def opaque(x): return torch.from_numpy(-x.numpy())\n"
            "class Opaque(nn.Module):\n"
            "    def forward(self, x): return opaque(x)\n"
            "def made(): return Opaque(), (torch.ones(2),)\n"
        )
    done = hx("converters", "try", "mine.py", "models.py:made")
    assert done.code == 4, done.err
    assert "the converter of models.reluu answers for nothing" in done.err
    assert "the converter of models.opaque is for opset 21+, and this is opset 20" in done.err


def test_what_a_tried_converter_did_not_do_is_told_with_the_reason(hx, folder):
    (folder / "mine.py").write_text(
        "from hx import converter\n"
        "@converter('torch.Tensor.relu', since=21)\n"
        "def late(op, input): return op.Neg(input)\n"
        "@converter('torch.nn.Linear.forward')\n"
        "def linear(op, self, input): return NotImplemented\n"
        "@converter('torch.nn.functional.reluu')\n"
        "def nothing(op, input): return input\n"
        "@converter('torch.cosh')\n"
        "def cosh(op, input): return op.Cosh(input)\n"
        "@converter('torch.nn.functional.linear')\n"
        "def other(op, input, weight, bias=None): return NotImplemented\n"
    )
    words = ["converters", "try", "mine.py", "models.py:with_inputs"]
    words += ["--use", "torch.nn.functional.linear=hx"]
    tried = {each.pop("target"): each for each in hx(*words, "--json").json["tried"]}
    assert {each["converted"] for each in tried.values()} == {0}
    why = {target: each["why"] for target, each in tried.items()}
    assert why["torch.Tensor.relu"] == "is for opset 21+, and this is opset 20"
    assert why["torch.nn.Linear.forward"].startswith("declined 1 call: what they call inside")
    assert why["torch.nn.functional.reluu"].startswith("answers for nothing: torch.nn.functional")
    assert why["torch.cosh"] == "was never called by this model"
    assert why["torch.nn.functional.linear"] == "is not used: that of hx was chosen"
    told = hx(*words).err
    assert "converted by mine.py" not in told
    (folder / "mine.py").write_text(
        "from hx import converter\n@converter('torch.Tensor.relu')\ndef wrong(op, input): 1 / 0\n"
    )
    raised = hx("converters", "try", "mine.py", "models.py:with_inputs").err
    assert "ZeroDivisionError" in raised and "hx converters try" not in raised


def test_a_folder_of_transformers_is_a_model_source(hx, folder):
    vision.torchvision()  # which transformers imports where it is installed
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=50, intermediate_size=16, **small)
    config.architectures = ["BertModel"]
    config.save_pretrained(folder / "bert")
    done = hx("export", "hf:bert", "-o", "b.onnx", "-i", "input_ids=int64[b,s]<50",
              "-i", "attention_mask=int64[b,s]<2")  # fmt: skip
    assert done.code == 0, done.err
    assert dims("b.onnx", "input_ids") == ["b", "s"]
    missing = hx("export", "hf:nothing", "-o", "b.onnx")
    assert missing.code == 2 and "config.json" in missing.err


@pytest.mark.parametrize(("spec", "size"), [("torchvision:resnet18", 64), ("timm:resnet10t", 64)])
def test_models_come_from_libraries_by_name(hx, spec, size):
    library, _, name = spec.partition(":")
    vision.torchvision()
    pytest.importorskip(library)
    done = hx("export", spec, "-o", "m.onnx", "-i", f"x=float32[batch,3,{size},{size}]")
    assert done.code == 0, done.err
    wrong = hx("export", f"{library}:{name}x", "-o", "m.onnx")
    assert wrong.code == 2 and f"did you mean {name}" in wrong.err


@pytest.mark.parametrize("command", ["export", "verify"])
def test_a_layer_that_is_not_there_or_does_not_run_is_told(hx, folder, command):
    with (folder / "models.py").open("a") as models:
        models.write(
            "class Idle(Line):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.idle = nn.Linear(4, 4)\n"
            "def idle(): return Idle(), (torch.ones(2, 4),)\n"
        )
    assert hx("export", "models.py:idle", "-o", "m.onnx").code == 0
    words = ["export", "models.py:idle", "-o", "n.onnx"]
    words = words if command == "export" else ["verify", "m.onnx", "models.py:idle"]
    done = hx(*words, "--output-layer", "linaer")
    assert done.code == 2 and "no module 'linaer'" in done.err
    assert "did you mean linear?" in done.err
    done = hx(*words, "--output-layer", "idle")
    assert done.code == 2 and "idle did not run" in done.err

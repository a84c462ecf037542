"""`hx export`: what it takes, what it writes, what it says."""

from __future__ import annotations

import re

import numpy
import onnx
import pytest
import torch
import vision
from safetensors.torch import save_file

from hx.cli.folding import fold


def dims(path, name="x"):
    [value] = [v for v in onnx.load(path).graph.input if v.name == name]
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_the_demo_model_exports_in_one_line(hx, folder):
    done = hx("export", "hx.demo:model", "-o", "demo.onnx")
    assert done.code == 0 and done.out == ""
    for word in ("demo.onnx", "8 nodes", "opset 20", "input sets", "ok"):
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


def test_a_model_may_be_a_program_of_torch_export(hx, folder):
    import torch

    program = torch.export.export(torch.nn.Linear(4, 3), (torch.ones(2, 4),))
    torch.export.save(program, folder / "ep.pt2")
    with (folder / "models.py").open("a") as models:
        models.write("def program(): return torch.export.load('ep.pt2')\n")
        models.write("def its_inputs(): return program(), (torch.ones(2, 4),)\n")
    for spec in ("models.py:program", "models.py:its_inputs"):
        done = hx("export", spec, "-o", "m.onnx")
        assert done.code == 0, done.err
        assert "input float32[2,4]" in done.err


def test_a_word_is_a_dim_that_may_change(hx):
    done = hx("export", "models.py:line", "-o", "m.onnx", "--input", "x=float32[batch,4]")
    assert done.code == 0 and "batch 1 to" in done.err
    assert dims("m.onnx") == ["batch", 4]


@pytest.mark.parametrize(
    "words", [["-i", "x=float32[batch>=3<=9,4]"], ["-i", "x=float32[5,4]", "-d", "x:0=batch>=3<=9"]]
)
def test_a_dim_may_have_limits_within_which_it_is_proved(hx, words):
    done = hx("export", "models.py:line", "-o", "m.onnx", "-v", *words)
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
    done = hx("export", "models.py:Holder", "-o", "m.onnx", "-v", *words)
    tried = {int(size) for size in re.findall(r"batch=(\d+)", done.err)}
    assert done.code == 0 and len(tried) >= 2 and all(n % 4 == 0 and n >= 8 for n in tried)
    assert dims("m.onnx") == ["batch", 4] and "8 <= batch, a multiple of 4" in done.err
    again = hx("verify", "m.onnx", "models.py:Holder", *words)
    assert again.code == 0 and "8 <= batch, a multiple of 4" in again.err
    assert tried >= {int(size) for size in re.findall(r"batch=(\d+)", again.out)}


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


def test_weights_too_small_for_a_data_file_are_told(hx, folder):
    done = hx("export", "models.py:with_inputs", "-o", "m.onnx", "--external-data")
    assert done.code == 0 and not list(folder.glob("*.data"))
    assert "every weight has less than 1024 bytes: all are in the file" in done.err
    assert "1024" not in hx("export", "models.py:with_inputs", "-o", "m.onnx").err


def test_json_is_data_with_a_schema(hx):
    done = hx("export", "hx.demo:model", "-o", "m.onnx", "--json", "-q")
    assert done.json["schema"] == 1 and done.json["ok"] is True
    assert done.json["report"]["nodes"] == 8 and done.json["report"]["proof"]["ok"]
    assert done.err == ""


def test_nodes_by_pack_are_those_of_the_graph(hx, folder):
    (folder / "less.py").write_text(
        "import torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        torch.sin(x)  # which nobody asks for\n"
        "        return x * 2\n"
        "def make(): return M(), (torch.ones(3),)\n"
    )
    done = hx("export", "less.py:make", "-o", "m.onnx", "--json", "-q").json["report"]
    assert done["nodes"] == 1 and done["packs"] == {"hx[standard]": 1}


def test_every_node_can_be_looked_at(hx):
    done = hx("export", "hx.demo:model", "-o", "m.onnx", "--check-every-node")
    head, *rows = done.out.splitlines()
    assert head.split() == ["NODE", "RESULT", "ERROR", "ALLOWED", "STATE", "CALL", "LINE"]
    assert len(rows) == 8 and all(" ok " in row and "demo.py:" in row for row in rows)
    found = hx("export", "hx.demo:model", "-o", "m.onnx", "--check-every-node", "--json").json
    assert found["report"]["node_checks"][0]["op"] == "Conv"


def test_settings_of_the_project_count(hx, folder):
    (folder / "pyproject.toml").write_text('[tool.hx]\nrequire = ["hx>=99"]\n')
    done = hx("export", "hx.demo:model", "-o", "m.onnx")
    assert done.code == 3 and "hx>=99" in done.err


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


@pytest.mark.parametrize(
    ("spec", "file"),
    [("models.py:with_inputs", "with_inputs.onnx"), ("hx.demo:model", "model.onnx")],
)
def test_a_file_without_a_name_gets_that_of_the_model(hx, folder, spec, file):
    for _ in range(2):  # a file that hx wrote may be replaced
        done = hx("export", spec)
        assert done.code == 0 and file in done.err and (folder / file).exists()
    (folder / file).write_bytes(b"\x08\x09of another exporter")
    done = hx("export", spec)
    assert done.code == 2 and f"{file} exists, but hx did not write it" in done.err
    assert (folder / file).read_bytes() == b"\x08\x09of another exporter"
    assert hx("export", spec, "-o", file).code == 0  # what is named is meant


def test_the_name_of_a_graph_ends_in_onnx(hx, folder):
    done = hx("export", "models.py:with_inputs", "-o", "line")
    assert done.code == 2 and "write -o line.onnx" in done.err and not (folder / "line").exists()


ODD = """

class Odd(nn.Module):
    def forward(self, x):
        if x.shape[1] % 2:
            return torch.cat([x, x[:, :1] * 2], dim=1)[:, 1:]
        return x - 1


def odd(): return Odd(), (torch.randn(2, 6),)
"""


def test_the_time_of_several_strategies_is_explained(hx, folder):
    with (folder / "models.py").open("a") as file:
        file.write(ODD)
    words = ("export", "models.py:odd", "-o", "m.onnx", "-d", "x:1=n")
    done = hx(*words)
    assert done.code == 0 and "STRATEGY" not in done.err
    assert re.search(r"^time +[\d.]+ s, 5 strategies$", done.err, re.M)
    done = hx(*words, "--verbose")
    assert re.search(r"^time +[\d.]+ s \(load .*verify .*\), 5 strategies$", done.err, re.M)
    lines = done.err.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("STRATEGY"))
    table = lines[start : lines.index("ok")]
    assert max(map(len, table)) <= 80
    assert table[1].startswith("plain recording ") and table[1].endswith("wrong at n=7")
    assert table[-1].startswith("total ")
    for name in ("load", "prepare", "search"):
        assert any(line.startswith(f"{name} ") for line in table)
    report = hx(*words, "--json").json["report"]
    assert len(report["strategies"]) == 5 and report["strategies"][-1]["outcome"] == "right"
    timings = report["timings"]
    parts = sum(took for name, took in timings.items() if name != "total")
    assert parts == pytest.approx(timings["total"], abs=1e-4) and timings["load"] > 0


def test_the_strategies_of_a_failure_are_shown_on_request(hx, folder):
    words = ("export", "models.py:branches", "-o", "m.onnx")
    done = hx(*words)
    assert done.code == 4 and "STRATEGY" not in done.err
    done = hx(*words, "--verbose", "--report", "r.md")
    assert done.code == 4
    assert done.err.index("STRATEGY") < done.err.index("both ways of") < done.err.index("error[")
    assert "needs another recording" in (folder / "r.md").read_text()
    done = hx("export", "models.py:line", "-o", "m.onnx", "-i", "x=float32[2,4]", "--verbose")
    assert "STRATEGY" not in done.err and re.search(r"^time +\d+\.\d\d s", done.err, re.M)


MANY = """
import torch
from torch import nn

class Many(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout()

    def forward(self, queries_of_the_first_encoder, keys_of_the_second_encoder, mask):
        x = self.drop(queries_of_the_first_encoder) @ keys_of_the_second_encoder.mT
        if queries_of_the_first_encoder.shape[1] > 64: x = x.cumsum(1)[:, :64].sum(1)
        if mask.sum() > 3: x = x * 2
        named = {"first_long_name_of_output": x.mean(1), "second_long_name": x.amax(1)}
        return x, named, x.sum()

def build(): return Many(), (torch.randn(2, 5, 4), torch.randn(2, 7, 4), torch.ones(2))
"""


def test_a_summary_is_at_most_ten_lines_of_80_columns(hx, folder):
    (folder / "many.py").write_text(MANY)
    done = hx("export", "many.py:build", "-o", "m.onnx", "-d", "queries_of_the_first_encoder:1=n")
    names = ("inputs", "right for", "checked", "followed", "time")  # as much as there may be
    assert done.code == 0 and all(f"\n{name}" in done.err for name in names), done.err
    lines = fold(done.err.rstrip(), 80).splitlines()
    assert len(lines) <= 10 and max(map(len, lines)) <= 80, done.err
    assert ", and 2 more\n" in done.err and "load" not in done.err
    full = hx(
        "export", "many.py:build", "-o", "m.onnx", "-v", "-d", "queries_of_the_first_encoder:1=n"
    )
    assert "second_long_name" in full.err and "load" in full.err

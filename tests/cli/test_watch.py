"""`hx watch`: the calls of a script, and the sizes that change in them."""

from __future__ import annotations

import sys
import threading

import onnx
import pytest
import torch

import hx as package
from hx.budget import BUDGET
from hx.hooks.outermost_calls import OutermostCalls

TRAIN = """
import argparse
import torch
from helpers import SIDES
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, image):
        return self.head(self.norm(self.conv(image)).relu().mean((2, 3)))


def main(epochs):
    model, loss = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(epochs):
        for batch, high, wide in SIDES:
            out = loss(model(torch.randn(batch, 3, high, wide)), torch.zeros(batch).long())
            optimizer.zero_grad()
            out.backward()
            optimizer.step()
    print("the loss is", out.item())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--debug", action="store_true")
    main(parser.parse_args().epochs)
"""
HELPERS = "SIDES = [(2, 16, 24), (4, 16, 20), (3, 24, 24)]\n"
OPTIONS = '-d "image:0=batch,2=height,3=width"'


@pytest.fixture
def script(folder):
    """`script("text")` -> the name of a file with it."""

    def write(text, name="own.py"):
        (folder / name).write_text(text)
        return name

    (folder / "scripts").mkdir()
    write(TRAIN, "scripts/train.py")
    write(HELPERS, "scripts/helpers.py")
    return write


def test_a_script_shows_its_model_and_the_sizes_that_change(hx, script):
    done = hx("watch", "scripts/train.py", "--epochs", "2")
    assert done.code == 0, done.told
    lines = done.out.splitlines()
    assert lines[0].split(maxsplit=1)[1] == "Net (scripts/train.py:8), 6 calls, 3 shapes"
    assert "image float32[batch,3,height,width]" in done.out
    assert "batch 2 to 4, height 16 to 24, width 20 to 24" in done.out and OPTIONS in done.out
    assert "the loss is" in done.err and "CrossEntropyLoss" in done.err
    assert "hx watch -o net.onnx scripts/train.py --epochs 2" in done.err


def test_words_behind_the_script_are_its_own(hx, script):
    done = hx("watch", "scripts/train.py", "--json", "--debug")
    assert done.code == 0 and done.out.startswith("model"), done.told
    failed = hx("watch", "scripts/train.py", "--nothing")
    assert failed.code == 2 and "called no torch.nn.Module" in failed.err


def test_the_model_is_exported_and_proved_on_the_calls(hx, script, folder):
    done = hx("watch", "-o", "net.onnx", "--json", "scripts/train.py")
    assert done.code == 0, done.told
    shape = onnx.load("net.onnx").graph.input[0].type.tensor_type.shape
    assert [dim.dim_param or dim.dim_value for dim in shape.dim] == ["batch", 3, "height", "width"]
    report = done.json["report"]
    names = [case["name"] for case in report["proof"]["cases"]]
    assert {"recorded", "call 2", "call 3"} <= {*names} and report["state"] == "verified"
    assert report["proposed"] == {"image": {"0": "batch", "2": "height", "3": "width"}}
    [model] = done.json["models"]
    assert model["options"] == OPTIONS and model["calls"] == 3
    shown = hx("watch", "-o", "net.onnx", "scripts/train.py")
    assert f"dynamic  {OPTIONS}" in shown.err and shown.err.endswith("ok\n") and not shown.out


def test_the_data_has_all_calls(hx, script):
    done = hx("watch", "--json", "scripts/train.py")
    [model] = done.json["models"]
    assert model["name"] == "Net" and model["dynamic"]["image"]["0"] == "batch"
    assert [each["image"] for each in model["inputs"]] == [
        "float32[2,3,16,24]", "float32[4,3,16,20]", "float32[3,3,24,24]"
    ]  # fmt: skip


TWO = """
import torch
from torch import nn
one, two = nn.Linear(4, 2), nn.Linear(3, 2)
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = one
    def forward(self, x, by=1.0): return self.inner(x) * by
model = Scaled()
for n in (1, 2, 5):
    model(torch.randn(n, 4))
    model(torch.randn(n, 4), by=2.0) if n < 3 else None
    two(torch.randn(3))
"""


def test_of_several_models_one_is_named(hx, script, folder):
    name = script(TWO)
    shown = hx("watch", name)
    assert "Scaled (own.py:5), 5 calls, 3 shapes" in shown.out
    assert "calls with other arguments, of 2 shapes" in shown.out
    assert "Linear, 3 calls, 1 shape" in shown.out and "one shape" not in shown.err
    refused = hx("watch", "-o", "m.onnx", name)
    assert refused.code == 2 and "--model Scaled" in refused.err
    unknown = hx("watch", "-o", "m.onnx", "--model", "Other", name)
    assert unknown.code == 2 and "it calls Scaled, Linear" in unknown.err
    assert not (folder / "m.onnx").exists()
    done = hx("watch", "-o", "m.onnx", "--model", "Scaled", name)
    assert done.code == 0 and '-d "x:0=batch"' in done.err, done.told


def test_a_part_that_is_called_by_itself_is_not_the_model(hx, script):
    text = (
        "import torch\nnet = torch.nn.Sequential(torch.nn.Linear(4, 2))\n"
        "for n in (2, 3): net[0](torch.ones(n, 4)), net(torch.ones(n, 4))\n"
    )
    done = hx("watch", script(text))
    assert done.out.startswith("model    Sequential") and "\nmodel" not in done.out
    assert "also called: Linear" in done.err
    part = hx("watch", "-o", "m.onnx", "--model", "Linear", "own.py")
    assert part.code == 0 and part.err.startswith("Linear, 2 calls"), part.told


def test_calls_of_one_shape_are_tried_at_others(hx, script):
    done = hx("watch", script("import torch\ntorch.nn.Linear(4, 2)(torch.ones(3, 4))\n"))
    assert '-d "input:0=batch"' in done.out and "the model also ran at others" in done.out


def test_compiled_code_is_seen(hx, script):
    text = "import torch\nnet = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 2)))\n"
    done = hx("watch", script(f"{text}for n in (2, 3): net(torch.ones(n, 4))\n"))
    assert "Sequential, 2 calls, 2 shapes" in done.out and '"input:0=batch"' in done.out


CACHE = """
import torch
class Cache:
    def __init__(self): self.keys = None
    def update(self, new):
        self.keys = new if self.keys is None else torch.cat([self.keys, new], 1)
        return self.keys
class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x, past):
        return past.update(self.linear(x)).sum(1)
model, past = Decoder().eval(), Cache()
with torch.inference_mode():
    for n in (3, 1, 1, 1):
        model(torch.randn(2, n, 4), past=past)
"""


def test_what_a_call_changes_in_its_arguments_is_kept_as_it_was_before(hx, script):
    done = hx("watch", "--json", script(CACHE))
    [model] = done.json["models"]
    sizes = [each["past_keys"] for each in model["inputs"]]
    assert sizes == ["float32[2,3,4]", "float32[2,4,4]", "float32[2,5,4]"]
    assert model["dynamic"] == {"past_keys": {"1": "past"}} and model["other_arguments"] == 1
    exported = hx("watch", "-o", "decoder.onnx", "own.py")
    assert exported.code == 0 and 'past_keys:1=past"' in exported.err, exported.told


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(3)", "raise SystemExit('enough')"])
def test_a_script_may_end_with_sys_exit(hx, script, end):
    text = f"import sys, torch\ntorch.nn.Linear(4, 2)(torch.ones(3, 4))\n{end}\n"
    done = hx("watch", script(text))
    assert done.code == 0 and "Linear, 1 call" in done.out, done.told
    assert ("ended with sys.exit" in done.err) == ("()" not in end)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import torch\nn = 0\n1 / n\n", ("own.py:3", "ZeroDivisionError", "1 / n")),
        ("import torch\ntorch.nn.Linear(4, 2)(torch.ones(3, 5))\n", ("own.py:2", "mat1 and mat2")),
        ("import torch\nx = (\n", ("own.py:2", "SyntaxError")),
        ("import nothing_of_this_name\n", ("own.py:1", "nothing_of_this_name")),
        ("import torch\n", ("called no torch.nn.Module", "hx export own.py:NAME")),
        ("import torch\ntorch.nn.Linear(4, 2).forward(torch.ones(3, 4))\n", ("model.forward(x)",)),
    ],
)
def test_errors_of_a_script_are_told_with_its_line(hx, script, text, told):
    done = hx("watch", script(text))
    assert done.code and not done.out
    for each in told:
        assert each in done.err


def test_a_script_that_is_not_there(hx, folder):
    done = hx("watch", "none.py")
    assert done.code == 2 and "there is no file none.py" in done.err
    assert hx("watch", "-o", "m.txt", "models.py").code == 2


def test_nothing_is_left_behind_by_a_script_that_raises(hx, script):
    call, compiled = torch.nn.Module._call_impl.__code__, torch.compile.__code__
    main, path = sys.modules["__main__"], [*sys.path]
    text = "import torch\nn = torch.compile(torch.nn.Linear(4, 2))\nn(torch.ones(3, 4))\nraise KeyError(1)"
    assert hx("watch", script(text)).code == 1
    assert torch.nn.Module._call_impl.__code__ is call and torch.compile.__code__ is compiled
    assert sys.modules["__main__"] is main and sys.path == path
    assert not hasattr(torch.nn.Module, "__hx_behind__")


def test_only_so_many_calls_are_kept():
    model, most = torch.nn.Linear(4, 2), BUDGET.proposals.calls
    with OutermostCalls() as calls:
        for n in range(1, most + 4):
            model(torch.ones(n, 4))
            model(torch.ones(n, 4))
    [found] = calls.modules
    assert (found.count, len(found.kept), found.left_out) == (2 * most + 6, most, 6)
    model(torch.ones(1, 4))
    assert found.count == 2 * most + 6


def test_kept_inputs_are_copies():
    model, x = torch.nn.ReLU(inplace=True), torch.tensor([-1.0, 2.0])
    with OutermostCalls() as calls, torch.inference_mode():
        model(x)
    [given] = calls.modules[0].kept.values()
    assert given.args[0].tolist() == [-1.0, 2.0] and not given.args[0].is_inference()
    assert package.export(model, given.args, dynamic="auto").report.file.proposed


THREADS = """
import threading
from concurrent.futures import ThreadPoolExecutor
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 2))
def deeper(rows):
    inner = threading.Thread(target=net, args=(torch.ones(rows, 4),))
    inner.start()
    inner.join()
with ThreadPoolExecutor(2) as pool:
    list(pool.map(deeper, (2, 3)))
late = threading.Timer(0.2, net, (torch.ones(7, 4),))
late.start()
"""


def test_calls_in_threads_are_seen(hx, script):
    """The script calls the model in a pool, in a nested thread, and in a timer that ends last."""
    done = hx("watch", "--json", script(THREADS))
    [model] = done.json["models"]
    assert model["calls"] == 3 and model["dynamic"] == {"input": {"0": "batch"}}
    shapes = {each["input"] for each in model["inputs"]}
    assert shapes == {"float32[2,4]", "float32[3,4]", "float32[7,4]"}


def test_threads_of_others_and_threads_inside_of_a_module_are_not_followed():
    class Parallel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = torch.nn.Linear(4, 2)

        def forward(self, x):
            thread = threading.Thread(target=self.part, args=(x,))
            thread.start()
            thread.join()
            return self.part(x)

    model, other, go = Parallel(), torch.nn.Linear(4, 2), threading.Event()
    start = threading.Thread.start.__code__

    def theirs():
        go.wait()
        other(torch.ones(1, 4))

    before = threading.Thread(target=theirs)
    before.start()
    with OutermostCalls() as calls:
        model(torch.ones(2, 4))
        go.set()
        before.join()
        calls.wait()
    assert [each.module for each in calls.modules] == [model] and calls.modules[0].count == 1
    assert threading.Thread.start.__code__ is start


def test_a_thread_that_outlives_the_watch_is_let_go():
    model, go = torch.nn.Linear(4, 2), threading.Event()

    def work():
        model(torch.ones(1, 4))
        seen.set()
        go.wait()
        model(torch.ones(2, 4))

    call, seen = torch.nn.Module._call_impl.__code__, threading.Event()
    with OutermostCalls() as calls:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        seen.wait()
    assert torch.nn.Module._call_impl.__code__ is call
    go.set()
    thread.join()
    assert calls.modules[0].count == 1 and "run" not in vars(thread)


def test_the_path_of_a_script_is_completed(folder):
    from hx.cli.watch import complete_script

    (folder / "deep").mkdir()
    (folder / "deep" / "train.py").write_text("")
    (folder / "deep" / "data.txt").write_text("")
    assert complete_script("") == ["deep/", "models.py"]
    assert complete_script("deep/") == ["deep/train.py"]
    assert complete_script(str(folder / "mo")) == [str(folder / "models.py")]


def test_export_and_scan_find_sizes_by_themselves(hx):
    done = hx("export", "models.py:with_inputs", "-o", "m.onnx", "-d", "auto")
    assert done.code == 0 and 'dynamic  -d "x:0=batch"' in done.err, done.told
    assert hx("export", "models.py:with_inputs", "-o", "m.onnx", "-d", "x:0=batch").code == 0
    scanned = hx("scan", "models.py:with_inputs")
    assert 'dynamic  -d "x:0=batch"' in scanned.err
    assert hx("scan", "models.py:with_inputs", "--json").json["report"]["proposed"]
    assert "dynamic" not in hx("scan", "models.py:with_inputs", "-d", "x:0=n").err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-d", "auto", "-d", "x:0=n"], "finds all sizes itself"),
        (["-d", "auto", "-i", "x=float32[n,4]"], "--input names n"),
    ],
)
def test_auto_goes_alone(hx, words, told):
    done = hx("export", "models.py:with_inputs", "-o", "m.onnx", *words)
    assert done.code == 2 and told in done.err


def test_further_inputs_show_which_sizes_change(hx, folder):
    for name, rows in (("a", 2), ("b", 5)):
        torch.save({"x": torch.randn(rows, 4)}, folder / f"{name}.pt")
    words = ["--inputs", "a.pt", "--inputs", "b.pt", "-d", "auto"]
    done = hx("export", "models.py:line", "-o", "m.onnx", *words, "--json")
    assert done.code == 0 and done.json["report"]["proposed"] == {"x": {"0": "batch"}}, done.told
    refused = hx("verify", "m.onnx", "models.py:with_inputs", "-d", "auto")
    assert refused.code == 2 and "hx export and hx scan only" in refused.err


def test_options_of_nested_inputs_can_be_pasted(hx, folder):
    (folder / "nested.py").write_text(
        "import torch\n"
        "class Pairs(torch.nn.Module):\n"
        "    def forward(self, pair): return pair['a'] + pair['b']\n"
        "def build(): return Pairs(), ({'a': torch.ones(2, 3), 'b': torch.ones(2, 3)},)\n"
    )
    words = ["export", "nested.py:build", "-o", "m.onnx"]
    found = hx(*words, "-d", "auto", "--json").json["report"]["proposed"]
    axes = {"0": "batch", "1": "pair_a_1"}
    assert found == {"pair_a": axes, "pair_b": axes}
    pasted = hx(*words, "-d", "pair_a:0=batch,1=n", "-d", "pair_b:0=batch,1=n")
    assert pasted.code == 0 and "pair_a float32[batch,n]" in pasted.err, pasted.told
    assert hx(*words, "-d", "pear_a:0=n").code == 2

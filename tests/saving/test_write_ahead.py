"""Weights that are written while the model still runs: the file is the one that it would be."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import onnx
import pytest
import torch
import warm_python
from interrupted import interrupted
from onnx import numpy_helper
from torch import nn

import hx
from hx.saving import write_ahead
from hx.saving.write_ahead import WriteAhead

HERE = Path(__file__).parent
WIDE = 256  # a square weight of this width is large enough to be written ahead
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


pytestmark = pytest.mark.usefixtures("one_core")


class Chain(nn.Module):
    """Linears; `forward` says what else happens."""

    def __init__(self, forward, count=3):
        super().__init__()
        self.does = forward
        self.layers = nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in range(count))
        self.register_buffer("table", torch.randn(WIDE, WIDE))
        self.norm, self.other_norm = nn.BatchNorm1d(WIDE), nn.BatchNorm1d(WIDE)

    def forward(self, x):
        return self.does(self, x)


def run(layers, x):
    for layer in layers:
        x = layer(x).relu()
    return x


def plain(self, x):
    return run(self.layers, x)


def last_unused(self, x):
    return run(self.layers, x), self.layers[0](x)


def one_unused(self, x):
    self.layers[1](x)
    return self.layers[2](self.layers[0](x))


def first_unused(self, x):
    self.layers[0](x)
    return run(self.layers[1:], x)


def twice(self, x):
    return run([*self.layers, *self.layers], x)


def another_name(self, x):
    return x @ self.layers[0].weight.t() + run(self.layers, x)


def written_after_use(self, x):
    y = x @ self.table
    self.table += 1
    return y + run(self.layers, x)


def written_before_use(self, x):
    self.table[0] = 2
    return x @ self.table + run(self.layers, x)


def written_through_data(self, x):
    y = self.layers[0](x)
    self.layers[0].weight.data.mul_(2)
    y = self.layers[1](y) + self.layers[0](x)
    self.layers[0].weight.data.mul_(0.5)
    return y


def rebound(self, x):
    y = self.layers[0](x)
    self.table = self.table * 2
    return y @ self.table


def normalized(self, x):
    return run([self.layers[0], self.norm, *self.layers[1:], self.other_norm], x)


def normalized_at_once(self, x):
    """In the weights of the first layer, and of one whose result is read elsewhere too."""
    y = self.layers[1](self.norm(self.layers[0](x)))
    return self.other_norm(y) + self.layers[2](y)


def normalized_and_written(self, x):
    y = self.norm(self.layers[0](x))
    self.norm.running_var *= 2
    return self.layers[1](y) + self.norm(self.layers[2](x))


def threads_are_counted(self, x):
    y = run(self.layers, x)
    return y * threading.active_count()


def forks(self, x):
    y = run(self.layers, x)
    pid = os.fork()
    if pid == 0:
        raise ChildProcessError  # it leaves through all that is open
    assert os.waitpid(pid, 0)[1] == 0
    return y


FORWARDS = [
    plain, last_unused, one_unused, first_unused, twice, another_name, written_after_use,
    written_before_use, written_through_data, rebound, normalized, normalized_at_once,
    normalized_and_written, threads_are_counted,
]  # fmt: skip


@pytest.mark.parametrize("forward", FORWARDS, ids=lambda f: f.__name__)
def test_the_file_is_right_and_the_same_again(tmp_path, forward):
    model = Chain(forward).eval()
    x = torch.randn(2, WIDE)
    program = hx.export(model, x, tmp_path / "a.onnx", dynamic={"x": {0: "n"}})
    assert program.proof.ok
    hx.export(model, x, tmp_path / "again.onnx", dynamic={"x": {0: "n"}})
    torch.set_num_threads(CORES)  # no core is idle
    hx.export(model, x, tmp_path / "busy.onnx", dynamic={"x": {0: "n"}})
    program.save(tmp_path / "saved.onnx")  # the model has run
    names = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(names) == ["a.onnx", "again.onnx", "busy.onnx", "saved.onnx"]
    assert len(set(names.values())) == 1
    onnx.checker.check_model(str(tmp_path / "a.onnx"), full_check=True)
    weights = [t.name for t in onnx.load(tmp_path / "a.onnx").graph.initializer]
    assert len(weights) == len(set(weights)), "each once"


@pytest.mark.parametrize("forward", [plain, last_unused, one_unused], ids=lambda f: f.__name__)
def test_nothing_is_in_the_file_that_the_graph_does_not_read(tmp_path, forward):
    model = Chain(forward).eval()
    path = tmp_path / "a.onnx"
    hx.export(model, torch.randn(2, WIDE), path, outputs=None, verify=False)
    used = sum(
        array.nbytes for array in map(numpy_helper.to_array, onnx.load(path).graph.initializer)
    )
    assert used <= path.stat().st_size < used + 20_000


@pytest.mark.skipif(CORES == 1, reason="no core is ever idle")
def test_weights_are_in_the_file_before_the_model_is_through(tmp_path):
    seen = []

    def looks(self, x):
        y = run(self.layers, x)
        for _ in range(500):  # the other thread is quick, and owes nobody a time
            seen.append(max(path.stat().st_size for path in tmp_path.iterdir()))
            if seen[-1] > 2 * WIDE * WIDE * 4:
                break
            threading.Event().wait(0.01)
        return y

    hx.export(Chain(looks).eval(), torch.randn(2, WIDE), tmp_path / "a.onnx")
    assert seen[-1] > 2 * WIDE * WIDE * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_that_ends_leaves_its_parents_files_alone(tmp_path):
    """Run apart: the child goes all the way up."""
    code = f"""
import os, sys, torch, hx
sys.path[:0] = {[str(HERE), str(HERE.parent / "shared")]!r}
from test_write_ahead import Chain, WIDE, forks
torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
try:
    hx.export(Chain(forks).eval(), torch.randn(2, WIDE), sys.argv[1], verify=False)
except ChildProcessError:
    os._exit(0)
"""
    done = warm_python.run_code(code, str(tmp_path / "a.onnx"))
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.onnx"]
    onnx.checker.check_model(str(tmp_path / "a.onnx"), full_check=True)


def test_an_export_that_fails_leaves_no_file(tmp_path):
    def raises(self, x):
        run(self.layers, x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hx.export(Chain(raises).eval(), torch.randn(2, WIDE), tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("external", [True, False])
def test_where_the_weights_go_is_as_asked(tmp_path, external):
    model = Chain(plain).eval()
    x = torch.randn(2, WIDE)
    program = hx.export(model, x, tmp_path / "a.onnx", external_data=external)
    assert program.proof.ok and len(list(tmp_path.iterdir())) == 1 + external


# Python itself drops what is raised in a finalizer.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_every_line(tmp_path):
    model, x = Chain(last_unused).eval(), torch.randn(2, WIDE)
    path = tmp_path / "a.onnx"

    def run():
        hx.export(model, x, path, verify=False)

    run()
    before, at, going = path.read_bytes(), 0, True
    while going:
        at += 1
        going = interrupted(run, at, [write_ahead])
        assert [p.name for p in tmp_path.iterdir()] == ["a.onnx"], at
        assert path.read_bytes() == before
    assert at > 30


def test_one_that_was_never_started_is_not_waited_for(tmp_path):
    (tmp_path / "a").touch()
    one = WriteAhead(tmp_path / "a")
    one._state = "asked"  # an interrupt came right behind this
    one.close()
    one._run()  # and if it starts after all
    assert not (tmp_path / "a").read_bytes()


def test_readers_take_a_length_with_leading_zeros(tmp_path):
    hx.export(Chain(plain).eval(), torch.randn(2, WIDE), tmp_path / "a.onnx", verify=False)
    model = onnx.load(tmp_path / "a.onnx")
    assert model.ir_version and len(model.graph.initializer) == 6
    # As protobuf itself would have written it: the same model.
    again = onnx.ModelProto.FromString(model.SerializeToString())
    assert again == model
    # Its graph, of less than 2 MiB, has a length of three bytes, which stands there in five.
    assert (tmp_path / "a.onnx").stat().st_size == model.ByteSize() + 2


def test_what_is_made_early_reads_what_the_graph_has_in_the_end(tmp_path, monkeypatch):
    """A thread may fold a normalization before two nodes that say the same become one."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, WIDE, 5), nn.BatchNorm2d(WIDE))

        def forward(self, x):
            return x.relu(), self.layers(x.relu())

    def at_once(self, constant, name, made):
        early.append(made())
        put(self, constant, name, made)

    early, put = [], WriteAhead.put
    monkeypatch.setattr(WriteAhead, "put", at_once)
    hx.export(Twice().eval(), torch.randn(1, 3, 8, 8), tmp_path / "m.onnx")
    assert early
    relu, conv = onnx.load(tmp_path / "m.onnx").graph.node
    assert (relu.op_type, conv.op_type) == ("Relu", "Conv") and conv.input[0] == relu.output[0]

"""Models that ask whether they are being traced."""

import errno
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hx
from hx.errors import VerificationError
from hx.program import Program


class Cached(nn.Module):
    """Returns its state, too, but not to a tracer, as decoders with a cache do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        state = self.first(x).tanh()
        y = {"y": self.second(state)}
        if not torch.jit.is_tracing():
            y["state"] = state
        return y


class Positions(nn.Module):
    """Has a way of its own for tracers, which fits every size."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(1, 3, 6))

    def forward(self, x):
        if not torch.jit.is_tracing() and x.shape[2] == 6:
            return x + self.table
        return x + nn.functional.interpolate(self.table, size=x.shape[2:], mode="linear")


def test_what_is_left_out_for_a_tracer_is_in_the_graph():
    x = torch.randn(2, 4)
    program = hx.export(Cached(), x, None, dynamic={"x": {0: "n"}})
    assert [out["name"] for out in program.report.outputs] == ["y", "state"]
    assert program.proof.ok


@pytest.mark.parametrize("size", [6, 9])
def test_the_way_for_tracers_is_taken(size):
    model, x = Positions(), torch.randn(2, 3, size)
    program = hx.export(model, x, None, dynamic={"x": {2: "n"}})
    assert not program.report.escapes
    assert program.proof.ok


class Around(nn.Module):
    """Goes around what torch.onnx cannot do, and computes something else, as libraries do."""

    def forward(self, x):
        if torch.onnx.is_in_onnx_export():
            return x.clamp(min=0).amax(1)
        return x.amax(1)


class Compiled(nn.Module):
    """Runs compiled code, but not for torch.onnx."""

    def forward(self, x):
        if torch.onnx.is_in_onnx_export():
            return torch.tanh(x) * 2
        return _twice_tanh(x)


@torch.library.custom_op("hx_tests::twice_tanh", mutates_args=())
def _twice_tanh(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(2 * np.tanh(x.numpy()))


class Refuses(nn.Module):
    def forward(self, x):
        tracing = torch.jit.is_tracing()
        return torch.linalg.eigvals(x) if tracing else torch.linalg.eigvals(x) * 2


def test_the_way_around_what_torch_onnx_cannot_do_is_not_taken():
    program = hx.export(Around(), torch.randn(3, 4), None, verify=False)
    x = torch.randn(3, 4) - 9
    assert torch.equal(program.run(x), x.amax(1))


def test_where_nothing_else_is_right_it_is_and_the_report_says_so():
    program = hx.export(Compiled(), torch.randn(2, 3), None)
    assert program.proof.ok
    (note,) = [note for note in program.report.notes if "recorded with" in note]
    assert note.startswith("recorded with torch.onnx.is_in_onnx_export() = True, because")


class Otherwise(nn.Module):
    """Computes something else for a tracer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return self.linear(x) + (1 if torch.jit.is_tracing() else 0)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("folder", ["here", "there"])
def test_what_was_rejected_on_the_way_to_a_right_graph_is_not_kept(tmp_path, folder, external):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    program = hx.export(
        Otherwise(), torch.randn(2, 64), tmp_path / "here" / "m.onnx", external_data=external,
        keep_rejected=tmp_path / folder / "kept.onnx",
    )  # fmt: skip
    assert any("torch.jit.is_tracing() = False" in note for note in program.report.notes)
    left = sorted(path.suffix for path in tmp_path.rglob("*") if path.is_file())
    assert left == ([".data"] if external else []) + [".onnx"]
    assert program.run(torch.ones(2, 64)).shape == (2, 64)  # with the data that it has


def test_what_fails_whatever_the_model_hears_is_told_as_at_first():
    with pytest.raises(hx.MissingConverters) as told:
        hx.export(Refuses(), torch.randn(3, 3), None)
    assert told.value.missing[0].count == 1
    line = Refuses.forward.__code__.co_firstlineno + 2
    assert f"test_tracing.py:{line}" in str(told.value)


class RefusesExport(nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting():
            raise RuntimeError("this model cannot be exported")
        return x * 2


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}, "auto"])
def test_a_model_that_raises_when_it_is_exported_hears_that_it_is_not(dynamic):
    program = hx.export(RefusesExport(), torch.randn(3, 4), None, dynamic=dynamic)
    assert any("torch.compiler.is_exporting() = False" in note for note in program.report.notes)
    assert torch.equal(program.run(torch.ones(3, 4)), torch.full((3, 4), 2.0))


def test_an_error_of_the_model_whatever_it_hears_is_told_as_the_model_raised_it():
    class Raises(RefusesExport):
        def forward(self, x):
            torch.jit.is_tracing()
            return super().forward(x) if torch.compiler.is_exporting() else x.missing

    with pytest.raises(RuntimeError, match="this model cannot be exported"):
        hx.export(Raises(), torch.randn(3, 4), None)


def rows(source, index):
    """As libraries of graphs do it, whose sums have as many rows as the largest index says."""
    count = index.max() + 1 if torch.jit.is_tracing() else int(index.max()) + 1
    sums = source.new_zeros((count,) + source.shape[1:])
    return sums.scatter_add(0, index[:, None].expand_as(source), source)


def test_a_size_in_a_tensor_is_followed_where_a_tracer_alone_could(tmp_path):
    example = torch.randn(7, 4), torch.tensor([0, 0, 1, 2, 2, 1, 3])
    words = {"source": {0: "n"}, "index": {0: "n"}}
    program = hx.export(rows, example, tmp_path / "m.onnx", dynamic=words)
    assert any("torch.jit.is_tracing() = False" in note for note in program.report.notes)
    other = torch.randn(9, 4), torch.tensor([0, 0, 1, 2, 2, 1, 3, 6, 7])
    torch.testing.assert_close(program.run(*other), rows(*other))


def always(x, index):
    count = index.max() + 1
    torch.jit.is_tracing()
    return x.new_zeros((count,) + x.shape[1:]) + x[0]


def test_where_no_answer_helps_the_first_is_what_is_told(tmp_path):
    example = torch.randn(4, 4), torch.tensor([0, 3])
    with pytest.raises(VerificationError, match="left the graph: index"):
        hx.export(always, example, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
    with pytest.raises(VerificationError):
        hx.export(always, example, tmp_path / "m.onnx", keep_rejected=tmp_path / "kept.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.onnx"]
    program = hx.export(always, example, tmp_path / "m.onnx", verify=False)
    assert [escape.kind for escape in program.report.escapes] == ["index"]
    assert not any("recorded with" in note for note in program.report.notes)


def test_a_tensor_is_itself_whatever_is_in_it():
    program = hx.export(lambda q, k: q + k if torch.equal(q, q) else q, (torch.ones(3),) * 2)
    assert not program.report.escapes


class FailsElsewhere(nn.Module):
    """Has a way for torch.onnx that does not run, and is refused on all others."""

    def __init__(self, how) -> None:
        super().__init__()
        self.how = how

    def forward(self, x):
        if torch.onnx.is_in_onnx_export():
            self.how()
        return torch.linalg.eigvals(x)


def _raise(problem):
    raise problem


@pytest.mark.parametrize(
    "how",
    [
        lambda: torch.onnx.symbolic_helper.gone_since,
        lambda: _raise(hx.UsageError("of its own")),
        lambda: sys.exit("no"),
    ],
    ids=["its own", "a call", "the end"],
)
def test_what_another_way_raises_does_not_hide_the_first_refusal(how):
    with pytest.raises(hx.MissingConverters, match="eigvals"):
        hx.export(FailsElsewhere(how), torch.randn(3, 3), None)


def test_an_interrupt_on_another_way_ends_the_export():
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hx.export(FailsElsewhere(stop), torch.randn(3, 3), None)


def test_a_full_disk_on_another_way_is_told(monkeypatch, tmp_path):
    def write(program, *args):
        raise hx.ExportError("cannot write m.onnx") from OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(Program, "write", write)
    with pytest.raises(hx.ExportError, match=r"cannot write m\.onnx"):
        hx.export(Compiled(), torch.randn(2, 3), tmp_path / "m.onnx")


class Remembering(nn.Module):
    """Makes each number once, and for a tracer none at all."""

    def forward(self, x):
        if torch.jit.is_tracing():
            return x * 1024
        made = {}
        for n in x.shape[1:]:
            if n not in made:
                made[n] = x.new_full((), float(n))
        h, w = x.shape[1:]
        return x * made[h] * made[w]


def test_other_sizes_are_tried_with_each_answer():
    program = hx.export(Remembering(), torch.randn(2, 32, 32), dynamic={"x": {1: "h", 2: "w"}})
    x = torch.randn(2, 5, 7)
    assert_close(program.run(x), x * 35)
    notes = " ".join(program.report.notes)
    assert "recorded at other sizes" in notes and "is_tracing() = False" in notes

"""Branches that go both ways: both are in the file then, with If."""

from __future__ import annotations

import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import hx
from hx.recording.recorder import Recorder


class Normalized(nn.Module):
    """As metrics take probabilities, or what a sigmoid makes them of."""

    def forward(self, x):
        if not torch.all((x >= 0) * (x <= 1)):
            x = x.sigmoid()
        return (x * 3).sum(-1)


class Layers(nn.Module):
    """Each way has layers of its own, and they go on alike behind that."""

    def __init__(self):
        super().__init__()
        self.first, self.one = nn.Linear(4, 4), nn.Linear(4, 4)
        self.other = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4))

    def forward(self, x):
        y = self.first(x)
        z = self.one(y) if y.mean() > 0.05 else self.other(y) + y
        return z.softmax(-1), self.first(z)


class Experts(nn.Module):
    """A loop of branches at one line, and writes to what all of them share."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        chosen, out = self.gate(x).argmax(-1), torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            if (chosen == i).any():
                out[chosen == i] = expert(x[chosen == i])
        return out


class SizesAndValues(nn.Module):
    """One branch on a size, and on each side of it one on a value; each returns."""

    def forward(self, x):
        if x.shape[1] > 6:
            x = x[:, :6]
        if x.sum().item() > 0:
            return x.mean(1)
        return x.amax(1)


class Picked(nn.Module):
    """Nothing is computed on either side: another value, or number, is read behind it."""

    def forward(self, x):
        y = x.cumsum(0)
        z = x if x.sum() > y.sum() else y
        k = 2.0 if x[0, 0] > 0 else 3.0
        return torch.cat([z * k, y], 1)


class Within(nn.Module):
    """No input that is tried is so large that it goes the third way."""

    def forward(self, x):
        if x.sum() > 0:
            if x.max() > 50:
                return x * 2
            return x * 3
        return x * 4


class InTurn(nn.Module):
    """What each of them reads, those before it have changed, or not."""

    def forward(self, x):
        for i in range(2):
            if x[i].sum() > 0.5:
                x = x * 0.9 + 0.01 * i
        return x, x.sum()


def inputs(shape):
    yield torch.rand(shape)
    for scale in (1.0, 0.1, 30.0, 100.0):
        for shift in (-0.7, 0.0, 0.7):
            yield (torch.randn(shape) + shift) * scale


CASES = [
    (Normalized, (3, 4), {0: "b"}),
    (Layers, (3, 4), {0: "b"}),
    (Experts, (6, 4), {0: "b"}),
    (SizesAndValues, (3, 5), {0: "b", 1: "n"}),
    (Picked, (3, 4), {0: "b"}),
    (Within, (3, 4), {0: "b"}),
    (InTurn, (3, 4), {1: "n"}),
]


@pytest.mark.parametrize(
    ("kind", "shape", "axes"), CASES, ids=lambda case: getattr(case, "__name__", "")
)
def test_every_way_is_in_the_file(kind, shape, axes, line_of):
    torch.manual_seed(0)
    model = kind().eval()
    program = hx.export(model, torch.rand(shape), dynamic={"x": axes})
    (note,) = [note for note in program.report.notes if "both ways" in note]
    assert f"{__file__}:{line_of(kind, ' if ')}" in note
    assert all(escape.carried for escape in program.report.escapes)
    assert not program.report.promised and not program.report.baked
    for more in (0, 1, 5):
        sizes = [n + more if axis in axes else n for axis, n in enumerate(shape)]
        for x in inputs(sizes):
            with torch.no_grad():
                assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)


def test_weights_are_stored_once_and_what_is_alike_behind_is_there_once(tmp_path):
    torch.manual_seed(0)
    model = Layers().eval()
    hx.export(model, torch.rand(3, 4), tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert sorted(i.name for i in graph.initializer if i.name) == sorted(
        {i.name for i in graph.initializer}
    )
    assert [node.op_type for node in graph.node].count("If") == 1
    assert [node.op_type for node in graph.node][-2:] == ["Softmax", "Gemm"]
    branches = [node for node in graph.node if node.op_type == "If"]
    inside = {attribute.name: len(attribute.g.node) for attribute in branches[0].attribute}
    assert inside == {"then_branch": 1, "else_branch": 4}


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * 2 if torch.equal(x.relu(), x) else x - 1,
        lambda x: x.exp() if torch.allclose(x[:1], x[-1:], atol=0.5) else x - 1,
    ],
)
def test_whether_two_tensors_are_the_same_is_asked_in_the_graph(model):
    program = hx.export(model, torch.randn(4, 3), strict=True, dynamic={"x": {0: "n"}})
    assert "If" in {node.op_type for node in program.model.graph}
    for x in (torch.randn(6, 3), torch.rand(5, 3), torch.rand(2, 3) * 0.4, torch.rand(1, 3)):
        assert_close(program.run(x), model(x))


def test_it_is_no_escape_in_a_strict_export():
    program = hx.export(Normalized(), torch.rand(3, 4), strict=True)
    assert program.proof.ok
    assert any("both ways" in note for note in program.report.notes)


def test_its_nodes_are_not_compared_one_by_one_and_that_is_told():
    program = hx.export(Normalized(), torch.rand(3, 4), check_every_node=True)
    assert program.report.node_table is None
    assert "not compared one by one" in str(program.report)
    with pytest.raises(hx.UsageError, match="what several recordings"):
        program.check_nodes()


def test_the_same_file_each_time(tmp_path):
    torch.manual_seed(0)
    model, x = Experts().eval(), torch.rand(6, 4)
    for name in ("one.onnx", "other.onnx"):
        hx.export(model, x, tmp_path / name, dynamic={"x": {0: "b"}})
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()


def other_rank(x):
    return x if x.sum() > 0 else x.sum()


def other_dtype(x):
    return x * 2 if x.sum() > 0 else x.double()


def other_results(x):
    return (x, x + 1) if x.sum() > 0 else (x,)


def either_in_each_round(x):
    while x.abs().max() > 0.3:
        x = x / 2 if x.sum() > 0 else x / 3
    return x


def of_too_many(x):
    for i in range(8):
        if x[i].sum() > 0:
            x = x + 0.1 * i
    return x


def test_questions_of_a_fixed_number_of_rounds_each_become_an_if():
    program = hx.export(of_too_many, torch.rand(8, 3))
    for x in (torch.rand(8, 3), -torch.rand(8, 3), torch.randn(8, 3)):
        assert_close(program.run(x), of_too_many(x))


def test_sides_in_rounds_that_data_end_are_selected_between():
    program = hx.export(either_in_each_round, torch.rand(8, 3))
    for x in (torch.rand(8, 3), -torch.rand(8, 3), 20 * torch.randn(8, 3)):
        assert_close(program.run(x), either_in_each_round(x))


@pytest.mark.parametrize("model", [other_rank, other_dtype, other_results])
def test_what_no_graph_has_is_refused_as_before(model, line_of):
    with pytest.raises(hx.VerificationError) as refused:
        hx.export(model, torch.rand(8, 3))
    assert "inputs: wrong" in str(refused.value)
    assert f"{__file__}:" in str(refused.value)


def test_a_way_that_the_model_cannot_go_is_left_out():
    """What it hears is not true: there is nothing to take the largest of."""

    def model(x):
        y = x * 2 if x.sum() > 0 else x - 1
        if (x > 400).any():
            y = y + x[x > 400].max()
        return y

    program = hx.export(model, torch.rand(3, 4))
    for x in (torch.rand(3, 4), -torch.rand(3, 4), torch.randn(3, 4)):
        assert_close(program.run(x), model(x))


def test_where_data_are_known_that_lead_there_it_is_recorded_on_these():
    def model(x):
        y = x * 2 if x.sum() > 0 else x - 1
        if (x > 40).any():
            y = y + x[x > 40].max()
        return y

    program = hx.export(model, torch.rand(3, 4), strict=True)
    for x in (torch.rand(3, 4), -torch.rand(3, 4), torch.randn(3, 4), torch.randn(3, 4) * 99):
        assert_close(program.run(x), model(x))


def test_a_loop_that_never_ends_when_it_hears_what_is_not_true():
    def model(x):
        y = x * 2 if x.sum() > 0 else x - 1
        if (x > 1000).any():
            while (x < 1000).any():
                x = x.clamp(max=5)
        return y + x

    program = hx.export(model, torch.rand(3, 4))
    for x in (torch.rand(3, 4), -torch.rand(3, 4)):
        assert_close(program.run(x), model(x))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.seen = []

    def forward(self, x):
        self.calls += 1
        self.seen.append(len(self.seen))
        return x.sigmoid() if x.min() < 0 else x * 2


def test_the_model_is_left_as_it_was_however_often_it_ran():
    model, x = Counting(), torch.rand(2, 3)
    state = torch.get_rng_state()
    program = hx.export(model, x)
    assert model.calls == 0 and model.seen == [] and torch.equal(torch.get_rng_state(), state)
    for x in (torch.rand(2, 3), -torch.rand(2, 3)):
        assert_close(program.run(x), x.sigmoid() if x.min() < 0 else x * 2)


def test_complex_results_and_plain_numbers_are_results_of_either_way():
    def model(x):
        y = torch.fft.fft(x) if x.sum() > 0 else torch.fft.fft(x).conj()
        return y, 3

    program = hx.export(model, torch.rand(2, 4))
    for x in (torch.rand(2, 4), -torch.rand(2, 4)):
        found = program.run(x)
        assert_close(found[0], model(x)[0], rtol=1e-4, atol=1e-4)
        assert found[1] == 3


def scaled(x):
    if x.max() > 300:
        x = x / 255
    return x * 2


def clipped(x):
    return x[:, :1] if x.max().item() > 300 else x * 2


def without_nans(x):
    if torch.isnan(x).any():
        x = torch.nan_to_num(x)
    return x.softmax(-1)


def warned(x):
    if (x > 300).any():
        print("large")
    return x * 2


@pytest.mark.parametrize("model", [scaled, clipped, without_nans, warned])
@pytest.mark.parametrize("verify", [True, False])
def test_what_no_tried_input_leads_to_is_in_the_file_too(model, verify, tmp_path):
    program = hx.export(
        model, torch.rand(3, 4), tmp_path / "m.onnx", dynamic={"x": {0: "b"}}, verify=verify
    )
    assert all(escape.carried for escape in program.report.escapes)
    for x in (torch.rand(5, 4), torch.rand(2, 4) * 1000, torch.tensor([[1.0, float("nan"), 2, 3]])):
        assert_close(program.run(x), model(x), equal_nan=True)


def test_of_a_check_it_is_told_what_the_model_raises(line_of):
    def model(x):
        if (x > 1000).any():
            raise ValueError("it is to be small")
        if x.mean() > 500:
            x = x + 1
        return x * 2

    program = hx.export(model, torch.rand(3, 4))
    (left,) = [escape for escape in program.report.escapes if not escape.carried]
    assert "raises ValueError: it is to be small" in str(left)
    for x in (torch.rand(3, 4), torch.rand(3, 4) + 600):
        assert_close(program.run(x), model(x))
    levels = {
        finding.where.line: finding.level for finding in program.report.findings if finding.where
    }
    assert levels[line_of(model, "(x > 1000)")] == "checked", "what raises needs no other file"
    with pytest.raises(hx.EscapeError, match="allows no open finding"):
        hx.export(model, torch.rand(3, 4), strict=True)


def test_ways_that_are_no_one_graph_are_told_as_before(line_of):
    def model(x):
        return x.sum() if (x > 1000).any() else x * 2

    program = hx.export(model, torch.rand(3, 4))
    (left,) = program.report.escapes
    assert left.where.line == line_of(model, " if ") and not left.carried
    assert "If" not in {node.op_type for node in program.model.graph}


def test_of_ways_that_are_no_one_graph_zeros_are_tried_too():
    """No tensor that is drawn has them, and many a model that is given nothing."""

    def model(x, image):
        return x if (image == 0).all() else x.outer(image)

    x, image = torch.randn(3), torch.randn(4)
    with pytest.raises(hx.VerificationError, match=r"zero x, image(.|\n)*zero image inputs: wrong"):
        hx.export(model, (x, image))
    hx.export(model, (x, image), verify=False)


def test_a_check_of_every_node_has_one_recording_to_compare_with():
    program = hx.export(scaled, torch.rand(3, 4), check_every_node=True)
    assert program.report.node_table.rows
    assert [escape.carried for escape in program.report.escapes] == [False]


def test_no_inputs_are_recorded_twice(monkeypatch):
    """Whole numbers have no other sign, and are not smaller for being divided."""
    seen, run = [], Recorder.record

    def record(recorder, recipe, **options):
        is_further = recipe.limit is not None and not recipe.forced
        seen.extend([recipe.inputs["ids"]] if is_further else [])
        return run(recorder, recipe, **options)

    monkeypatch.setattr(Recorder, "record", record)

    def model(ids):
        return ids * 2 if (ids > 1000).any() else ids + 1

    program = hx.export(model, torch.tensor([[3, 1, 7], [5, 0, 2]]))
    assert seen and len({tuple(ids.flatten().tolist()) for ids in seen}) == len(seen)
    for ids in (torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[1, 2, 3], [4, 5000, 6]])):
        assert_close(program.run(ids), model(ids))


def test_of_ways_that_are_no_one_graph_it_is_told_which_one_is_in_the_file():
    def model(x):
        return x.sum() if (x > 1000).any() else x * 2

    (left,) = hx.export(model, torch.rand(3, 4)).report.escapes
    assert "always takes this branch" in str(left)


def test_of_more_branches_than_are_followed_it_is_told_too(line_of):
    def model(x):
        if x.max() > 1000:
            x = x + 1 if x[0, 0] > 1 else x
            if x[0, 1] > 1:
                x = x * 2
            if x[0, 2] > 1:
                x = x - 1
            if x[0, 3] > 1:
                x = x.cos()
            if x[1, 0] > 1:
                x = x.sin()
        return x * 2

    program = hx.export(model, torch.rand(3, 4))
    first = line_of(model, "x.max() > 1000")
    for escape in program.report.escapes:
        assert escape.carried == (escape.where.line == first)
        assert ("always takes this branch" in str(escape)) is not escape.carried
    x = torch.rand(3, 4)
    assert_close(program.run(x), model(x))


def by_numpy_on_its_line(x):
    if x.max() > 10000: x = x * float(x.sum().numpy())  # fmt: skip  # noqa: E701
    return x


def by_digits_on_its_line(x):
    return x * len(str(int(x.max()))) if x.max() > 10000 else x


def by_digits(x):
    if x.max() > 10000:
        x = x * len(str(int(x.max())))
    return x


@pytest.mark.parametrize("model", [by_numpy_on_its_line, by_digits_on_its_line, by_digits])
def test_no_side_has_numbers_of_data_that_do_not_lead_there(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(3, 4))
    assert "If" not in {node.op_type for node in program.model.graph}
    (left,) = [escape for escape in program.report.escapes if not escape.carried]
    assert "always takes this branch: a number that is read at" in str(left)


def table_on_its_line(x):
    return x * {True: 1.0, False: 2.0}[str(x.sum().item()) > ""] if x.max() > 10000 else x


def test_what_is_read_on_the_line_of_a_branch_is_told_as_on_any_other():
    program = hx.export(table_on_its_line, torch.randn(3, 4))
    (left,) = [escape for escape in program.report.escapes if escape.kind == "item"]
    assert not left.carried and left.beyond == "seen on data alone that do not lead there"
    x = torch.full((3, 4), 20000.0)
    assert torch.equal(program.run(x), table_on_its_line(x))


class Kept(nn.Module):
    """Writes its buffer on one side of a branch."""

    def __init__(self, loud):
        super().__init__()
        self.loud = loud
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        if (x.max() > 100) == self.loud:
            self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
        return x - self.mean


@pytest.mark.parametrize("loud", [False, True])
def test_buffers_that_any_way_changes_are_told(loud):
    torch.manual_seed(0)
    model = Kept(loud).eval()
    report = hx.export(model, torch.randn(3, 4)).report
    assert report.changed_buffers == ["mean"]
    assert not model.mean.any()


class Scaled(nn.Module):
    """Writes to its parameter where nobody is led at first."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        if x.max() > 100:
            self.scale.data.mul_(0.5)
        return x * self.scale


def test_notes_of_any_way_are_told():
    model = Scaled().eval()
    report = hx.export(model, torch.randn(3, 4)).report
    assert "the model writes to its parameters: scale" in report.notes
    assert torch.equal(model.scale, torch.ones(4))


def test_where_sizes_say_how_much_is_cut_off_the_result_has_a_size_of_its_own(proved):
    def trimmed(x):
        more = 2
        if (x.shape[1] // 2) % 2 == 1:
            more += 1
        return F.pad(x, (0, 4))[:, :-more] * 2

    near = [{"n": n} for n in (8, 9, 10, 11, 24, 26)]
    program = proved(trimmed, torch.randn(2, 20), {"x": {1: "n"}}, near)
    assert program.report.outputs[0]["shape"] == [2, None]
    assert program.report.promised == {}

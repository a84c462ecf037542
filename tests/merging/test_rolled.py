"""Loops as long as a size says: each round is recorded, and the file has a Loop."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import hx


class Cells(nn.Module):
    """Two layers of LSTM cells, step by step."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(4, 5), nn.LSTMCell(5, 5)])
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        states = [(x.new_zeros(len(x), 5), x.new_zeros(len(x), 5)) for _ in self.cells]
        outs = []
        for t in range(x.shape[1]):
            y = x[:, t]
            for i, cell in enumerate(self.cells):
                states[i] = cell(y, states[i])
                y = states[i][0]
            outs.append(self.out(y))
        return torch.stack(outs, dim=1), states[0][1]


def begun_with_the_first(x):
    outs = [x[:, 0]]
    for t in range(1, x.shape[1]):
        outs.append(0.9 * outs[-1] + 0.1 * x[:, t])
    return torch.stack(outs, 1)


def begun_with_nothing(x):
    h, outs = None, []
    for t in range(x.shape[1]):
        h = x[:, t] * 2 if h is None else h * 0.5 + x[:, t]
        outs.append(h)
    return torch.stack(outs, 1)


def both_directions(x):
    ahead, back = [], []
    h = torch.zeros(x.shape[0], x.shape[2])
    for t in range(x.shape[1]):
        h = torch.tanh(h + x[:, t])
        ahead.append(h)
    h = torch.zeros(x.shape[0], x.shape[2])
    for t in range(x.shape[1] - 1, -1, -1):
        h = torch.tanh(h - x[:, t])
        back.append(h)
    back.reverse()
    return torch.cat([torch.stack(ahead, 1), torch.stack(back, 1)], -1)


def unbound(x):
    h, outs = torch.zeros(x.shape[0], x.shape[2]), []
    for step in x.unbind(1):
        h = torch.sigmoid(h - step)
        outs.append(h)
    return torch.stack(outs, 1).flatten(1)


def numbered(x):
    total = 0
    for i, step in enumerate(x.unbind(1)):
        total = total + step * (i + 1)
    return total


def written_to(x):
    out = torch.empty_like(x)
    h = torch.zeros_like(x[:, 0])
    for i in range(x.shape[1]):
        h = h * 0.3 + x[:, i, :]
        out[:, i, :] = h
    return out


def filtered(x):
    """Each row is written to, and read again behind that, and so is where it goes."""
    rows = (x * 0.5).permute(1, 0, 2)
    padded = torch.zeros(x.shape[0], x.shape[1] + 2, x.shape[2])
    weights = torch.tensor([0.3, -0.2, 0.1])
    for i, row in enumerate(rows):
        row -= torch.einsum("bkd,k->bd", padded[:, i : i + 3], weights)
        padded[:, i + 2] = row
    return padded[:, 2:], rows


def pieces_written_to(x):
    whole = torch.cat([x, x + 1], 1)
    h = torch.zeros_like(x[:, 0])
    for piece in whole.split(2, 1):
        piece += h.unsqueeze(1)
        h = torch.tanh(piece[:, 0] - piece[:, 1])
    return whole


def chunks(x):
    """Linear attention, two steps at a time."""
    state, outs = x.new_zeros(x.shape[0], 4, 4), []
    for i in range(x.shape[1] // 2):
        part = x[:, i * 2 : (i + 1) * 2]
        outs.append(part @ state + part)
        state = state * 0.5 + part.transpose(1, 2) @ part
    return torch.cat(outs, 1)


def state_space(x):
    h, ys = torch.zeros(x.shape[0], x.shape[2]), []
    decay, driven = torch.exp(-F.softplus(x)), x * 0.1
    for i in range(x.shape[1]):
        h = decay[:, i] * h + driven[:, i]
        ys.append(torch.einsum("bd,bd->b", h, x[:, i]))
    return torch.stack(ys, dim=1)


def steps_of_euler(x):
    t, y = torch.linspace(0, 1, x.shape[1]), x[:, 0]
    for i in range(x.shape[1] - 1):
        y = y + (t[i + 1] - t[i]) * torch.sin(y)
    return y


def longer_each_time(x):
    return torch.stack([x[:, : i + 1].mean(1) for i in range(x.shape[1])], 1)


def loops_within_rounds(x):
    h = torch.zeros_like(x[:, 0])
    for i in range(x.shape[1]):
        for k in range(3):
            h = torch.tanh(h + x[:, i] * k)
    return h


def best_path(x):
    """Viterbi: there, and back through what was kept of each step."""
    moves = torch.arange(16.0).reshape(4, 4) / 7
    score, kept = x[:, 0], []
    for i in range(1, x.shape[1]):
        score, places = (score.unsqueeze(2) + x[:, i].unsqueeze(1) + moves).max(1)
        kept.append(places)
    at = score.max(1)[1]
    path = [at]
    for places in reversed(kept):
        at = places.gather(1, at.unsqueeze(1)).squeeze(1)
        path.append(at)
    path.reverse()
    return torch.stack(path, 1)


def masked(x):
    there, score = x.sum(-1) > 0, x[:, 0]
    for i in range(1, x.shape[1]):
        score = torch.where(there[:, i].unsqueeze(1), score * 0.5 + x[:, i], score)
    return score


MODELS = [
    Cells, begun_with_the_first, begun_with_nothing, both_directions, unbound, numbered, written_to,
    filtered, pieces_written_to, chunks, state_space, steps_of_euler, longer_each_time,
    loops_within_rounds, best_path, masked,
]  # fmt: skip


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_as_many_rounds_as_a_size_says(kind, tmp_path):
    torch.manual_seed(0)
    model = kind().eval() if isinstance(kind, type) else kind
    program = hx.export(
        model, torch.randn(3, 6, 4), tmp_path / "m.onnx", dynamic={"x": {0: "b", 1: "n"}}
    )
    assert any("a loop in the graph" in note for note in program.report.notes)
    # Where the first round is unlike the others, it is asked whether there is another one.
    open_ = [escape for escape in program.report.escapes if not escape.carried]
    assert all(escape.beyond == "tried at n=1" for escape in open_) and not program.report.promised
    assert "Loop" in {node.op_type for node in program.model.graph}
    for size in ((3, 6), (2, 9), (1, 4), (4, 17), (5, 2), (2, 3), (1, 40)):
        x = torch.randn(*size, 4)
        with torch.no_grad():
            assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


def test_rows_that_are_written_to_are_not_all_made_again_for_each():
    def model(x):
        for row in x.unbind(0):
            row += x.sum(0)
        return x

    made = []
    for n in (10, 20, 40):
        graph = hx.export(model, torch.randn(n, 4)).model.graph
        made.append(sum(len(node.outputs) for node in graph))
    assert made[2] - made[1] == 2 * (made[1] - made[0])


def test_a_loop_of_a_fixed_number_of_rounds_stays_as_it_was_recorded():
    program = hx.export(begun_with_the_first, torch.randn(3, 6, 4), dynamic={"x": {0: "b"}})
    assert "Loop" not in {node.op_type for node in program.model.graph}


def test_the_same_file_each_time(tmp_path):
    for name in ("one.onnx", "other.onnx"):
        hx.export(both_directions, torch.ones(3, 6, 4), tmp_path / name, dynamic={"x": {1: "n"}})
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()


def test_it_is_no_escape_in_a_strict_export():
    program = hx.export(masked, torch.randn(3, 6, 4), dynamic={"x": {1: "n"}}, strict=True)
    assert "Loop" in {node.op_type for node in program.model.graph}


def test_its_nodes_are_not_compared_one_by_one():
    x = torch.randn(3, 6, 4)
    program = hx.export(masked, x, dynamic={"x": {1: "n"}}, check_every_node=True)
    assert program.report.node_table is None
    assert "not compared one by one" in str(program.report)


LAYER = nn.Linear(4, 4)


def rows_and_columns(x):
    """A loop within each round of another one."""
    outs = []
    for i in range(x.shape[0]):
        row = LAYER(x[i])
        h = row.mean(0)
        for j in range(x.shape[1]):
            h = torch.tanh(h * 0.5 + row[j])
        outs.append(h)
    return torch.stack(outs)


def lists_of_lists(x):
    outs = []
    for i in range(x.shape[0]):
        row = x[i] * (i + 1)
        outs.append(torch.stack([row[j] * (j + 2) * (i + 1) + i for j in range(x.shape[1])]).sum(0))
    return torch.stack(outs)


@torch.jit.script
def either(h, row):
    if bool(h.sum() > 0):
        return h * 0.5 - row
    return h + row


def branches_in_the_graph(x):
    h = x[:, 0].sum(0)
    for i in range(x.shape[1]):
        h = either(h, x[:, i].mean(0))
    return h


@pytest.mark.parametrize("model", [rows_and_columns, lists_of_lists, branches_in_the_graph])
def test_rounds_that_have_graphs_of_their_own(model):
    with torch.no_grad():
        program = hx.export(model, torch.randn(6, 5, 4), dynamic={"x": {0: "n", 1: "m"}})
        assert "Loop" in {node.op_type for node in program.model.graph}
        for n, m in ((6, 5), (3, 9), (12, 2), (1, 1), (4, 4), (2, 13)):
            x = torch.randn(n, m, 4)
            assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)


def padded_chunks(x):
    """One round up to 64, as linear attention of language models has it."""
    n = x.shape[1]
    y = F.pad(x, (0, 0, 0, -n % 64)).reshape(x.shape[0], -1, 64, 4)
    state, out = torch.zeros(x.shape[0], 4, 4), torch.zeros_like(y)
    for i in range(y.shape[1]):
        part = y[:, i]
        for k in range(1, 3):
            part = part * 0.5 + part.roll(k, 1)
        out[:, i] = part @ state + part
        state = state * 0.9 + part.transpose(1, 2) @ part * 0.01
    return out.reshape(x.shape[0], -1, 4)[:, :n]


def test_what_would_be_right_for_one_round_alone():
    program = hx.export(padded_chunks, torch.randn(2, 10, 4), dynamic={"x": {0: "b", 1: "n"}})
    assert not program.report.promised
    for n in (10, 1, 64, 65, 130, 200):
        x = torch.randn(3, n, 4)
        assert_close(program.run(x), padded_chunks(x), rtol=1e-4, atol=1e-4)


def test_where_there_is_no_round_nothing_is_promised():
    """The list is empty then, and `sum` gives a 0 that is no tensor."""

    def model(x):
        outs = []
        for i in range(1, x.shape[1]):
            outs.append(x[:, i] * outs[-1] if outs else x[:, i])
        return sum(outs)

    program = hx.export(model, torch.randn(3, 6, 4), dynamic={"x": {1: "n"}})
    assert program.report.promised == {"n": "n>=2"}
    for n in (2, 3, 4, 9):
        x = torch.randn(3, n, 4)
        assert_close(program.run(x), model(x))


def a_list(x):
    return [x[:, i] for i in range(x.shape[1])]


def from_the_middle(x):
    seen = [x[:, i] * 2 for i in range(x.shape[1])]
    return seen[len(seen) // 2]


@pytest.mark.parametrize("model", [a_list, from_the_middle])
def test_what_is_no_loop_is_refused_as_before(model, line_of):
    with pytest.raises(hx.VerificationError) as refused:
        hx.export(model, torch.randn(3, 6, 4), dynamic={"x": {1: "n"}})
    assert f"{__file__}:{line_of(model, 'range')}" in str(refused.value)


def test_a_dry_run_says_that_an_export_tries_a_loop():
    x = torch.randn(3, 6, 4)
    assert "as a loop" in str(hx.scan(numbered, x, dynamic={"x": {1: "n"}}))
    assert "as a loop" not in str(hx.scan(numbered, x, dynamic={"x": {0: "b"}}))


def scaled_before(x):
    if x.max() > 1:
        x = x / 10
    return both_directions(x)


def decided_behind(x):
    h = begun_with_the_first(x)[:, -1]
    return h * 2 if h.sum() > 0 else h - 1


@pytest.mark.parametrize("model", [scaled_before, decided_behind])
def test_branches_on_values_beside_a_loop(model):
    program = hx.export(model, torch.rand(3, 6, 4), dynamic={"x": {1: "n"}}, strict=True)
    assert {"If", "Loop"} <= {node.op_type for node in program.model.graph}
    for n in (1, 2, 5, 30):
        for scale in (1, -1, 8):
            x = torch.rand(3, n, 4) * scale
            assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


LAYER_OF_TWELVE = nn.Linear(4, 4)


def twelve_layers_first(x):
    for _ in range(12):
        x = torch.tanh(LAYER_OF_TWELVE(x))
    return both_directions(x)


def first_twenty(x):
    rows = [x[:, i] * 2 for i in range(x.shape[1])]
    return torch.stack([rows[i] + 1 for i in range(min(20, x.shape[1]))])


def of_two_inputs(x):
    h = torch.zeros(4)
    for t in range(x.shape[1]):
        h = h * 0.5 + x[0, t] * x[1, t]
    return h


@pytest.mark.parametrize("model", [twelve_layers_first, first_twenty, of_two_inputs])
@pytest.mark.parametrize("n", [6, 12, 23])
def test_what_else_comes_as_often_is_told_from_the_loop(model, n):
    program = hx.export(model, torch.randn(3, n, 4), dynamic={"x": {1: "n"}})
    for n in (2, 6, 11, 12, 13, 20, 21, 40):
        x = torch.randn(3, n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


def kept_for_sixteen_rounds(x):
    late = [x[:, 0] * 0] * 16
    for t in range(x.shape[1]):
        late = [*late[1:], torch.tanh(x[:, t] + late[0])]
    return late[-1]


def swapped(x):
    a, b = x, x * 2
    for _ in range(x.shape[1]):
        a, b = b, a
    return a


@pytest.mark.parametrize("model", [kept_for_sixteen_rounds, swapped])
@pytest.mark.parametrize("axes", [{1: "n"}, {0: "b", 1: "n"}])
def test_what_turns_in_later_rounds_is_no_loop(model, axes):
    with pytest.raises(hx.VerificationError):
        hx.export(model, torch.randn(2, 8, 4), dynamic={"x": axes})


def of_two_rounds_before(x):
    a, b = x[0] * 0, x[0]
    for t in range(x.shape[0]):
        a, b = b, torch.tanh(a + b * 0.5 + x[t])
    return a, b


def with_momentum(x):
    now, before, outs = x[0], x[0] * 2, []
    for t in range(x.shape[0]):
        now, before = torch.tanh(LAYER(now) + 0.5 * before + x[t]), now
        outs.append(now)
    return torch.stack(outs), before


def read_from_the_list(x):
    outs = [x[0], x[0] * 2, x[0] * 3]
    for t in range(x.shape[0]):
        outs.append(torch.tanh(outs[-1] + outs[-3] * 0.5 + x[t]))
    return torch.stack(outs)


@pytest.mark.parametrize("model", [of_two_rounds_before, with_momentum, read_from_the_list])
def test_what_was_made_some_rounds_ago(model):
    program = hx.export(model, torch.randn(5, 4), dynamic={"x": {0: "n"}}, strict=True)
    assert not program.report.promised
    for n in (1, 2, 3, 4, 12, 30):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)


def from_a_hundred_down(x):
    h = x[0] * 0
    for t in range(x.shape[0]):
        h = h + x[t] * (100 - t)
    return h


def from_the_last(x):
    h = x[0] * 0
    for t in range(x.shape[0]):
        h = h * 0.5 + x[-1 - t]
    return h


def on_a_schedule(x):
    h, outs = x[0] * 0, []
    for t in range(x.shape[0]):
        h = h * (1 - t * 0.1) + x[t]
        outs.append(h)
    return torch.stack(outs)


def to_zero(x):
    h, n = x[0] * 0, x.shape[0]
    for t in range(n):
        h = h * 0.5 + x[n - 1 - t] * (n - t)
    return h


@pytest.mark.parametrize("model", [from_a_hundred_down, from_the_last, on_a_schedule, to_zero])
@pytest.mark.parametrize("n", [4, 12])
def test_numbers_that_fall_from_the_first_or_to_the_last(model, n):
    program = hx.export(model, torch.randn(n, 4), dynamic={"x": {0: "n"}})
    for n in (1, 2, 5, 12, 13, 40):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-4)


def test_without_a_proof_there_is_no_loop():
    """It is right for the inputs that it was recorded on, and the escape says for which alone."""

    def model(x):
        h = torch.zeros(4)
        for t in range(x.shape[1]):
            h = h + x[0, t] * (100 - t)
        return h

    x = torch.randn(3, 6, 4)
    program = hx.export(model, x, dynamic={"x": {1: "n"}}, verify=False)
    assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)
    assert [escape.kind for escape in program.report.escapes] == ["range"]
    assert not program.report.escapes[0].carried


def test_no_more_is_promised_than_there_are_rounds_for():
    def model(x):
        before, seen = x[0] * 0, []
        for t in range(x.shape[0] - 1):
            seen.append(before)
            before = x[t + 1] - x[t]
        return seen[-1] if seen else x[0]

    program = hx.export(model, torch.rand(12, 4), dynamic={"x": {0: "n"}})
    (limits,) = program.report.promised.values()
    least = int(limits.partition(">=")[2])
    for n in range(least, 9):
        x = torch.rand(n, 4)
        assert_close(program.run(x), model(x))

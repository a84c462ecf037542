"""Parts of a whole: the experts of some tokens, the classes of labels, the clouds of a batch. A few
of them are in what the export is given, and any number in what the file is run with."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import hx

ENDS = [[4], [3, 5], [2, 3, 7, 12], [1, 2, 3, 4, 5, 6, 7, 9, 13, 20]]


class Experts(nn.Module):
    """Goes over those that any token goes to, as mixtures of experts do it."""

    def __init__(self, experts):
        super().__init__()
        self.router, self.experts = nn.Linear(8, experts), experts
        self.weights = nn.Parameter(torch.randn(experts, 8, 8))

    def forward(self, x):
        shares, chosen = self.router(x).softmax(-1).topk(2, -1)
        mask = F.one_hot(chosen, self.experts).permute(2, 1, 0)
        made = torch.zeros_like(x)
        for expert in torch.greater(mask.sum((-1, -2)), 0).nonzero():
            expert = expert[0]
            if expert == self.experts:  # masked out
                continue
            way, token = torch.where(mask[expert])
            of_it = torch.tanh(x[token] @ self.weights[expert])
            made.index_add_(0, token, of_it * shares[token, way, None])
        return made


@pytest.mark.parametrize("experts", [4, 5])
def test_experts_that_no_token_goes_to(experts):
    torch.manual_seed(0)
    model = Experts(experts)
    program = hx.export(model, torch.randn(14, 8), dynamic={"x": {0: "tokens"}})
    assert "as many as what is in tensors says" in program.report.notes[-1]
    for tokens in (1, 2, 3, 14, 40):
        x = torch.randn(tokens, 8)
        assert_close(program.run(x), model(x))


def of_each_class(x, y):
    return torch.stack([x[y == kind].mean(0) for kind in torch.unique(y)])


def of_each_class_in_a_list(x, y):
    return torch.stack([torch.tanh(x[y == kind]).sum(0) for kind in y.unique().tolist()])


def of_each_cloud(x, y):
    return torch.stack([torch.tanh(x[y == i]).amax(0) for i in range(y.max().item() + 1)])


def less_the_most_of_its_cloud(x, y):
    made = torch.zeros_like(x)
    for i in range(int(y.max()) + 1):
        points = torch.tanh(x[y == i])
        made[y == i] = points - points.max(0)[0]
    return made


@pytest.mark.parametrize("kinds", [2, 3])
@pytest.mark.parametrize(
    "model", [of_each_class, of_each_class_in_a_list, of_each_cloud, less_the_most_of_its_cloud]
)
def test_more_classes_than_were_given(model, kinds):
    y = torch.arange(12) * kinds // 12
    program = hx.export(model, (torch.randn(12, 4), y), dynamic={"x": {0: "n"}, "y": {0: "n"}})
    assert "as many as what is in tensors says" in " ".join(program.report.notes)
    for n, kinds in ((1, 1), (5, 3), (30, 7), (40, 20)):
        x, y = torch.randn(n, 4), torch.arange(n) * kinds // n
        assert_close(program.run(x, y), model(x, y))


def of_each_part(x, ends):
    made, begin = [], 0
    for end in ends.tolist():
        made.append(torch.tanh(x[begin:end]).amax(0))
        begin = end
    return torch.stack(made)


def beside_its_part(x, ends):
    made = []
    for i in range(ends.shape[0]):
        begin = 0 if i == 0 else ends[i - 1]
        made.append(x[begin : ends[i]].mean(0, keepdim=True).repeat(ends[i] - begin, 1))
    return x + torch.cat(made)


@pytest.mark.parametrize("given", [[7, 12], [3, 7, 12]])
@pytest.mark.parametrize("model", [of_each_part, beside_its_part])
def test_parts_by_where_they_end(model, given):
    dynamic = {"x": {0: "points"}, "ends": {0: "clouds"}}
    x = torch.randn(12, 4)
    program = hx.export(model, (x, torch.tensor(given)), dynamic=dynamic)
    for ends in ENDS:
        x = torch.randn(ends[-1], 4)
        assert_close(program.run(x, torch.tensor(ends)), model(x, torch.tensor(ends)))


def attention_in_parts(x, begins):
    made = []
    for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist()):
        part = x[begin:end]
        made.append(torch.softmax(part @ part.T, -1) @ part)
    return torch.cat(made)


@pytest.mark.parametrize("given", [[0, 7, 12], [0, 3, 7, 12]])
def test_parts_by_where_they_begin(given):
    dynamic = {"x": {0: "tokens"}, "begins": {0: "begins"}}
    x = torch.randn(12, 4)
    program = hx.export(attention_in_parts, (x, torch.tensor(given)), dynamic=dynamic)
    for ends in ENDS:
        x, begins = torch.randn(ends[-1], 4), torch.tensor([0, *ends])
        assert_close(program.run(x, begins), attention_in_parts(x, begins))


class TwoLayers(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.first, self.second = Experts(experts), Experts(experts)

    def forward(self, x):
        return self.second(x + self.first(x))


def test_two_layers_that_go_to_as_many_experts():
    """What is recorded goes to all four in both layers; what comes may go to two, and then to four."""
    torch.manual_seed(0)
    model = TwoLayers(4)
    program = hx.export(model, torch.randn(14, 8), dynamic={"x": {0: "tokens"}})
    many = set()
    for seed in range(20):
        x = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed))
        many.add(len(model.first.router(x).topk(2, -1).indices.unique()))
        assert_close(program.run(x), model(x))
    assert len(many) > 1


def state_of_all_members(x, y):
    h = x.mean(0)
    for kind in y.unique():
        for row in x[y == kind]:
            h = torch.tanh(h * 0.5 + row)
        h = h * 0.9
    return h


def list_of_all_members(x, y):
    outs = []
    for kind in y.unique().tolist():
        for row in x[y == kind]:
            outs.append(torch.tanh(row) * kind)
    return torch.stack(outs)


def members_by_their_places(x, y):
    h = x.mean(0)
    for kind in range(int(y.max()) + 1):
        for i in (y == kind).nonzero()[:, 0]:
            h = torch.tanh(h * 0.5 + x[i])
    return h


@pytest.mark.parametrize(
    "model", [state_of_all_members, list_of_all_members, members_by_their_places]
)
def test_members_of_each_class(model):
    x, y = torch.randn(6, 3), torch.tensor([0, 2, 1, 3, 2, 2])
    program = hx.export(model, (x, y), dynamic={"x": {0: "n"}, "y": {0: "n"}})
    for n, kinds in ((1, 1), (6, 4), (9, 2), (30, 3), (17, 15)):
        x, y = torch.randn(n, 3), torch.randint(kinds, (n,))
        assert_close(program.run(x, y), model(x, y), msg=f"{n} of {kinds} kinds")


def one_behind_the_other(x, y):
    first = torch.stack([x[y == kind].sum(0) for kind in y.unique()])
    other = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0)
    second = torch.stack([x[other == kind].sum(0) for kind in other.unique()])
    return first, second


def joined_behind_both(x, y):
    first = [x[y == kind].sum(0) for kind in y.unique()]
    other = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0)
    second = [x[other == kind].sum(0) for kind in other.unique()]
    return torch.stack(first), torch.stack(second)


def gone_over_again(x, y):
    other = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0)
    kinds, others = y.unique(), other.unique()
    first = torch.stack([x[y == kind].sum(0) for kind in kinds])
    second = torch.stack([x[other == kind].sum(0) for kind in others])
    third = torch.stack([torch.tanh(x[y == kind]).sum(0) for kind in kinds])
    return first, second, third


def one_within_the_other(x, y):
    other = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0)
    made = torch.zeros(3)
    for kind in y.unique():
        of_it = y == kind
        for side in other.unique():
            made = torch.tanh(made + x[of_it & (other == side)].sum(0))
    return made


@pytest.mark.parametrize(
    "model", [one_behind_the_other, joined_behind_both, gone_over_again, one_within_the_other]
)
def test_two_loops_that_go_as_often_when_they_are_recorded(model):
    x, y = torch.randn(40, 3), torch.arange(40) % 4
    program = hx.export(model, (x, y), dynamic={"x": {0: "n"}, "y": {0: "n"}})
    for count, kinds in ((40, 4), (30, 7), (6, 2), (3, 3), (1, 1)):
        x, y = torch.randn(count, 3), torch.randint(kinds, (count,))
        assert_close(program.run(x, y), model(x, y), msg=f"{count} of {kinds} kinds")


def each_cell(x, y):
    made = torch.zeros(())
    for row in x @ y.T:
        for cell in row:
            made = torch.tanh(made + cell)
    return made


def each_row_with_each(x, y):
    made = []
    for row in x:
        state = torch.zeros(())
        for other in y:
            state = torch.tanh(state + (row * other).sum())
        made.append(state)
    return torch.stack(made)


def of_a_list_that_a_loop_made(x, y):
    rows = [torch.tanh(row).cumsum(0) for row in x]
    state = torch.zeros(4)
    for row in rows:
        for other in y:
            state = torch.tanh(state + row * other)
    return state


@pytest.mark.parametrize("model", [each_cell, each_row_with_each, of_a_list_that_a_loop_made])
def test_what_is_read_in_each_round_of_a_loop_within(model):
    dynamic = {"x": {0: "n"}, "y": {0: "m"}}
    program = hx.export(model, (torch.randn(5, 4), torch.randn(6, 4)), dynamic=dynamic)
    for n, m in ((1, 1), (2, 9), (6, 6), (13, 4)):
        x, y = torch.randn(n, 4), torch.randn(m, 4)
        assert_close(program.run(x, y), model(x, y))


def each_column_of_each_kind(x, y):
    made = torch.zeros(x.shape[0])
    for kind in y.unique().tolist():
        for column in range(x.shape[1]):
            made = torch.tanh(made * 0.5 + x[:, column] * (y == kind))
    return made


def test_columns_within_kinds_of_which_there_are_as_many():
    x, y = torch.randn(40, 5), torch.arange(40) % 4
    dynamic = {"x": {0: "n", 1: "m"}, "y": {0: "n"}}
    program = hx.export(each_column_of_each_kind, (x, y), dynamic=dynamic)
    for n, m, kinds in ((40, 4, 4), (30, 3, 7), (6, 8, 2), (1, 1, 1)):
        x, y = torch.randn(n, m), torch.randint(kinds, (n,))
        assert_close(program.run(x, y), each_column_of_each_kind(x, y))


def fading(x, y):
    state = torch.zeros(3)
    for place in (y > 1).nonzero()[:, 0]:
        state = torch.tanh(state * 0.5 + x[place])
    return state


def fading_within(x, y):
    state = torch.zeros(3)
    for kind in y.unique():
        for place in (x[:, 0] > 0).nonzero()[:, 0]:
            state = torch.tanh(state * 0.5 + x[place] * kind)
        state = state * 0.9
    return state


@pytest.mark.parametrize("model", [fading, fading_within])
def test_rounds_from_a_constant_of_which_there_may_be_none(model):
    """The first round is of constants, and like the others all the same."""
    x, y = torch.randn(24, 3), torch.arange(24) % 4
    program = hx.export(model, (x, y), dynamic={"x": {0: "n"}, "y": {0: "n"}})
    for n in (1, 2, 5, 40):
        for sign in (-1, 1):
            x, y = torch.randn(n, 3).abs() * sign, torch.randint(1, 4, (n,)) * (sign > 0)
            assert_close(program.run(x, y), model(x, y))


def of_kinds_that_were_found_before(x, y, z):
    kinds, sides = y.unique(), z.unique()
    made = torch.zeros(3)
    for side in sides:
        for kind in kinds:
            made = torch.tanh(made * 0.5 + x[(y == kind) & (z == side)].sum(0))
    return made


def test_more_kinds_than_sides_and_fewer():
    x, y, z = torch.randn(24, 3), torch.arange(24) % 4, torch.arange(24) // 2 % 5
    dynamic = {"x": {0: "n"}, "y": {0: "n"}, "z": {0: "n"}}
    program = hx.export(of_kinds_that_were_found_before, (x, y, z), dynamic=dynamic)
    for n, kinds, sides in ((30, 7, 3), (12, 3, 7), (9, 4, 1), (9, 1, 4)):
        x, y, z = torch.randn(n, 3), torch.randint(kinds, (n,)), torch.randint(sides, (n,))
        assert_close(program.run(x, y, z), of_kinds_that_were_found_before(x, y, z))


def each_kind_with_each(x, y, z):
    state = torch.zeros(())
    kinds = y.unique()
    for row in range(x.shape[0]):
        for kind in torch.stack([y, z]).unique():
            state = torch.tanh(state * 0.5 + x[row].amax() * x[y == kind].sum())
    for one in kinds.tolist():
        for other in kinds:
            state = torch.tanh(state * 0.5 + x[z == one].sum() * ((y == other)[:, None] * x).mean())
        state = state * 0.9 + 0.1
    return state


def test_a_length_that_is_asked_for_both_loops():
    x, y, z = torch.randn(24, 5), torch.arange(24) % 4, torch.arange(24) // 2 % 5
    dynamic = {"x": {0: "n"}, "y": {0: "n"}, "z": {0: "n"}}
    program = hx.export(each_kind_with_each, (x, y, z), dynamic=dynamic)
    for n, kinds, sides in ((30, 7, 3), (12, 3, 7), (9, 1, 4)):
        x, y, z = torch.randn(n, 5), torch.randint(kinds, (n,)), torch.randint(sides, (n,))
        assert_close(program.run(x, y, z), each_kind_with_each(x, y, z))


def mean_of_each(x, lengths):
    return torch.stack([part.mean(0) for part in x.split(lengths.tolist())])


def padded(x, lengths):
    return nn.utils.rnn.pad_sequence(torch.split(x, lengths.tolist()), batch_first=True)


def attention_in_each(x, lengths):
    made = []
    for part in torch.split(x, [int(n) for n in lengths]):
        made.append((part @ part.mT).softmax(-1) @ part)
    return torch.cat(made)


def last_of_each(x, lengths):
    return torch.cat([part[-1:] for part in x.split(tuple(lengths.tolist()))])


@pytest.mark.parametrize("model", [mean_of_each, padded, attention_in_each, last_of_each])
def test_parts_of_given_lengths(model):
    given = torch.randn(13, 4), torch.tensor([3, 1, 4, 2, 3])
    program = hx.export(model, given, dynamic={"x": {0: "n"}, "lengths": {0: "b"}})
    assert "are a loop in the graph" in " ".join(program.report.notes)
    for lengths in ([13], [5, 2], [1, 1, 1], [2, 3, 4, 5, 1, 1, 7, 9, 1, 1, 1, 2, 3, 1]):
        x, lengths = torch.randn(sum(lengths), 4), torch.tensor(lengths)
        assert_close(program.run(x, lengths), model(x, lengths))

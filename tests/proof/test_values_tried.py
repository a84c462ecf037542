"""Values that an export is proved with beyond those of the recording, and mistakes that only they show."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.shared.proof_cases import names_of, with_converter
from torch import nn

import hx
from hx.errors import VerificationError
from hx.ir.value import Node
from hx.proof.cases import trials
from hx.proof.file_proof import Case
from hx.samples.masks import ends_of_mask
from hx.samples.number_properties import is_rising
from hx.samples.variations import fresh, resized


class Hides(nn.Module):
    def forward(self, x, keep):
        scores = (x @ x.transpose(-1, -2)).masked_fill(~keep[:, None, :], float("-inf"))
        return scores.softmax(-1).nan_to_num() @ x


@hx.converter("torch.Tensor.masked_fill", cases=[])
def hides_less(op, self, mask, value):
    return op.Where(mask, -1e4, self)


def test_masks_that_hide_everything_show_a_number_in_the_place_of_infinity():
    x, keep = torch.randn(2, 4, 8), torch.tensor([[True, True, False, False], [True] * 4])
    dynamic = {"x": {0: "b", 1: "n"}, "keep": {0: "b", 1: "n"}}
    names = names_of(hx.export(Hides(), (x, keep), dynamic=dynamic))
    assert {"masks of 0 at b=2, n=3", "masks of 1 at b=2, n=3"} <= set(names)
    with pytest.raises(VerificationError, match="masks of 0"):
        hx.export(Hides(), (x, keep), dynamic=dynamic, packs=with_converter(hides_less))


@pytest.mark.parametrize(
    "tensor, name, ends",
    [
        (torch.tensor([True, False]), "x", (0, 1)),
        (torch.tensor([1, 1, 0]), "x", (0, 1)),
        (torch.tensor([1, 1, 1]), "attention_mask", (0, 1)),
        (torch.tensor([1, 1, 1]), "tokens", None),
        (torch.tensor([1, 2, 0]), "attention_mask", None),
        (torch.tensor([0.0, -torch.inf]), "x", (-torch.inf, 0)),
        (torch.tensor([0.0, 1.0]), "x", (0, 1)),
        (torch.tensor([0.0, 0.5]), "x", None),
        (torch.tensor([0, 1], dtype=torch.uint16), "x", (0, 1)),
        (torch.tensor(True), "x", None),
        (torch.tensor([]), "mask", None),
    ],
)
def test_which_inputs_are_masks(tensor, name, ends):
    assert ends_of_mask(tensor, name) == ends


@hx.converter("torch.gt", cases=[])
def greater_than_more(op, input, other):
    return op.Greater(input, op.constant(other + 0.025, torch.float32))


def test_a_mistake_that_few_rows_show_is_no_limit_of_a_size():
    def model(scores):
        return torch.gt(scores, 0.05)

    with pytest.raises(VerificationError, match=r"n=5 of the rows at n=\d+"):
        hx.export(
            model,
            torch.tensor([0.9, 0.01, 0.5, 0.99, 0.3]),
            dynamic={"scores": {0: "n"}},
            packs=with_converter(greater_than_more),
        )


@hx.converter("torch.rsqrt", cases=[])
def rsqrt_of_more(op, input):
    return op.Div(1.0, op.Sqrt(op.Add(input, 5e-7)))


def test_a_wrong_epsilon_is_not_taken_for_rounding():
    def model(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    x = torch.randn(3, 5, 6)
    dynamic = {"x": {0: "b", 1: "n"}}
    assert not hx.export(model, x, dynamic=dynamic).report.promised
    with pytest.raises(VerificationError):
        hx.export(model, x, dynamic=dynamic, packs=with_converter(rsqrt_of_more))


def test_a_table_of_positions_is_tried_to_its_end():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 4)

        def forward(self, x):
            return x + self.table(torch.arange(x.shape[1]))

    program = hx.export(Positions(), torch.randn(2, 5, 4), dynamic={"x": {1: "n"}})
    assert "n=50" in names_of(program)


def test_sizes_that_people_like_are_tried():
    def model(x):
        height, width = json.loads(
            json.dumps(x.shape)
        )  # compiled code writes it: the sizes are lost
        x = x[::2]  # sizes are divided
        return x * 2 if height % 8 == 0 and width % 8 == 0 else x

    with pytest.raises(VerificationError, match="h=8,? w=16 inputs: wrong"):
        hx.export(model, torch.randn(5, 6), dynamic={"x": {0: "h", 1: "w"}})


@hx.converter("torch.ge", cases=[])
def greater_alone(op, input, other):
    return op.Greater(input, op.constant(other, torch.float32))


@hx.converter("torch.relu", cases=[])
def relu_to_300(op, input):
    return op.Clip(input, op.constant(0.0), op.constant(300.0))


@pytest.mark.parametrize(
    "model, converter",
    [
        (lambda x: torch.ge(x, 1.0).float() + x, greater_alone),
        (lambda x: torch.relu(x).abs().mean(0) + 0.5 * torch.relu(x).pow(2).mean(0), relu_to_300),
        (lambda x: (torch.relu(x) @ x.T).softmax(-1), relu_to_300),
    ],
)
def test_mistakes_at_edges_and_beyond_the_recorded_range(model, converter):
    x = torch.randn(4, 6)
    dynamic = {"x": {0: "n"}}
    assert hx.export(model, x, dynamic=dynamic).proof.ok
    with pytest.raises(VerificationError):
        hx.export(model, x, dynamic=dynamic, packs=with_converter(converter))


def test_boxes_are_tried_a_few_times_as_large():
    def areas(boxes):
        return torch.relu(boxes[:, 2:] - boxes[:, :2]).prod(1)

    start = 40 * torch.rand(5, 2)
    boxes, dynamic = torch.cat((start, start + 40 * torch.rand(5, 2)), 1), {"boxes": {0: "n"}}
    assert "larger boxes" in names_of(hx.export(areas, boxes, dynamic=dynamic))
    with pytest.raises(VerificationError, match="larger boxes"):
        hx.export(areas, boxes, dynamic=dynamic, packs=with_converter(relu_to_300))


@pytest.mark.parametrize("op", ["NonMaxSuppression", "TopK"])
def test_equal_scores_are_no_case_for_a_model_that_suppresses_boxes(op):
    recorded = [torch.tensor([[0.5, 0.5]]), torch.tensor([0.7, 0.6, 0.5])]
    trace = SimpleNamespace(nodes=[Node(op, "", [], [], {})])
    subject: Any = SimpleNamespace(results=recorded, trace=trace)
    for scores, fair in (([0.9, 0.8, 0.3], True), ([1.0, 1.0, 0.3], op == "TopK")):
        case = Case("large values", {}, [recorded[0], torch.tensor(scores)])
        assert trials.finite(subject, [case]) == ([case] if fair else [])


def test_rounds_that_a_number_counts_are_no_reason_to_try_few_values():
    def grown(x, count):
        for _ in range(int(count)):
            x = torch.relu(x) + 0.5
        return x

    given, dynamic = (torch.randn(3, 4), torch.tensor(6)), {"x": {0: "n"}}
    assert {"large values", "NaN values"} < {*names_of(hx.export(grown, given, dynamic=dynamic))}
    with pytest.raises(VerificationError, match="large"):
        hx.export(grown, given, dynamic=dynamic, packs=with_converter(relu_to_300))


@pytest.mark.parametrize(
    "numbers, sorted_ones",
    [
        ([1, 3, 3], False),
        ([1, 2, 4], True),
        ([0, 3, 3], True),
        ([1, 3, 3, 4], True),
        ([1, 3], False),
    ],
)
def test_which_whole_numbers_are_sorted_on_purpose(numbers, sorted_ones):
    assert is_rising(torch.tensor(numbers)) is sorted_ones


def test_lengths_that_rise_by_chance_are_drawn_in_any_order():
    lengths = torch.tensor([1, 3, 3])
    some = resized(lengths, {0: 40})
    assert not bool((some.diff() >= 0).all()) and int(some.min()) == 1 and int(some.max()) == 3
    drawn = [fresh([lengths], seed=seed)[0] for seed in range(8)]
    assert any(bool((each.diff() < 0).any()) for each in drawn)


# Heavy models run as little as shows as much.

HEAVY = torch.randn(24, 4096)


class Wide(nn.Module):
    def __init__(self, after):
        super().__init__()
        self.layer, self.after = nn.Linear(4096, 4096), after

    def forward(self, x):
        return self.after(self.layer(x))


def rows_of(model):
    """Return a list of the rows in each run of a model, which grows with them."""
    found = []
    model.layer.register_forward_pre_hook(lambda _, args: found.append(len(args[0])))
    return found


def test_a_heavy_model_is_tried_on_one_row_of_each_kind():
    model = Wide(torch.relu)
    rows = rows_of(model)
    program = hx.export(model, HEAVY, dynamic={"x": {0: "batch"}})
    *_, opposite, large, special = names_of(program)
    assert [opposite, large] == ["opposite values at batch=1", "large values at batch=1"]
    assert special == "NaN and infinite values"
    assert rows.count(24) == 2  # recorded, and with other values
    assert not program.report.baked


@hx.converter("torch.relu", cases=[])
def clips(op, input):
    return op.Clip(input, 0.0, 100.0)


def test_a_bound_in_the_file_of_a_heavy_model_shows_at_large_values():
    with pytest.raises(VerificationError, match="large values at batch=1"):
        packs = with_converter(clips)
        hx.export(Wide(torch.relu), HEAVY, dynamic={"x": {0: "batch"}}, packs=packs)


def test_large_values_that_float64_does_not_confirm_are_no_case():
    """A large float has no exact fraction, so the model returns rounding errors."""
    model = Wide(lambda x: (x * 64).frac())
    names = names_of(hx.export(model, HEAVY / 4, dynamic={"x": {0: "batch"}}))
    assert "opposite values at batch=1" in names and "large values at batch=1" not in names


def test_values_that_float64_confirms_take_the_place_of_larger_ones():
    """The sine of large values is nothing but rounding, and that of fewer is not."""
    program = hx.export(Wide(lambda x: (x / 4).sin()), HEAVY, dynamic={"x": {0: "batch"}})
    case = program._made.subject.cases[-2]
    assert case.name == names_of(program)[-2] == "large values at batch=1"
    assert 16 < case.feeds["x"].abs().max() < 2048


def test_sizes_that_decide_lead_to_no_other_values():
    class Asks(nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] > 64 else x * 2

    class AsksValues(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 1e6 else x * 2

    dynamic = {"x": {0: "batch"}}
    assert "fresh 2" not in names_of(hx.export(Asks(), torch.randn(2, 4), dynamic=dynamic))
    given = torch.randn(2, 4)
    assert hx.export(AsksValues(), given, dynamic=dynamic).proof.ok

"""Loops that take one from what is left until nothing is: suppression of boxes, as it is written by
hand. Such a model raises an error where it is to go on with nothing left."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import hx

WORDS = {"boxes": {0: "n"}, "scores": {0: "n"}}


def overlaps(box, others):
    low, high = torch.maximum(box[:2], others[:, :2]), torch.minimum(box[2:], others[:, 2:])
    both = (high - low).clamp(min=0).prod(1)
    return both / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - both)


def while_any_is_left(boxes, scores):
    order, kept = scores.argsort(descending=True), []
    while order.numel() > 0:
        kept.append(order[0])
        rest = order[1:]
        order = rest[overlaps(boxes[order[0]], boxes[rest]) <= 0.5]
    return torch.stack(kept)


def or_the_last_is_taken(boxes, scores):
    order, kept = scores.argsort(descending=True), []
    while order.numel() > 0:
        kept.append(order[0])
        if order.numel() == 1:
            break
        rest = order[1:]
        order = rest[overlaps(boxes[order[0]], boxes[rest]) <= 0.5]
    return torch.stack(kept)


def by_plain_numbers(boxes, scores):
    order, kept = scores.argsort(descending=True), []
    while len(order) > 0:
        best = order[0].item()
        kept.append(best)
        apart = torch.where(overlaps(boxes[best], boxes[order[1:]]) <= 0.5)[0]
        order = order[apart + 1]
    return torch.tensor(kept)


def what_they_are(boxes, scores):
    kept = while_any_is_left(boxes, scores)
    return boxes[kept], scores[kept]


def some_boxes(n, much=0.3):
    low = torch.rand(n, 2)
    return torch.cat([low, low + 0.05 + much * torch.rand(n, 2)], 1), torch.rand(n)


@pytest.mark.parametrize("given", [4, 20])  # of 4, few are left: it is recorded with more of them
@pytest.mark.parametrize(
    "model", [while_any_is_left, or_the_last_is_taken, by_plain_numbers, what_they_are]
)
def test_suppression_of_boxes(model, given):
    torch.manual_seed(0)
    program = hx.export(model, some_boxes(given), dynamic=WORDS)
    assert "it goes on until the data end it" in " ".join(program.report.notes)
    for n, much in ((1, 0.3), (2, 0.3), (7, 2.0), (30, 0.3), (60, 1.0)):
        boxes, scores = some_boxes(n, much)
        assert_close(program.run(boxes, scores), model(boxes, scores))


def in_steps(x):
    made = []
    while x.numel() > 0:
        made.append(x.max())
        x = x[x < x.max() - 0.1]
    return torch.stack(made)


def summed(x):
    total = torch.zeros(())
    while len(x):
        total = total + x.max() ** 2
        x = x[x < x.max() - 0.1]
    return total


@pytest.mark.parametrize("model", [in_steps, summed])
def test_what_falls_below(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(12), dynamic={"x": {0: "n"}})
    for n in (1, 2, 9, 40):
        x = torch.randn(n)
        assert_close(program.run(x), model(x))


def of_those_above(boxes, scores):
    """The scores that are high enough may be none: no round is gone then."""
    above = scores > 0.3
    boxes, scores = boxes[above], scores[above]
    order, kept = scores.argsort(descending=True), []
    while order.numel() > 0:
        kept.append(order[0])
        rest = order[1:]
        order = rest[overlaps(boxes[order[0]], boxes[rest]) <= 0.5]
    return boxes, scores, kept


def which_of_them(boxes, scores):
    *_, kept = of_those_above(boxes, scores)
    return torch.stack(kept) if kept else torch.empty(0, dtype=torch.long)


def left_early(boxes, scores):
    boxes, _, kept = of_those_above(boxes, scores)
    if len(kept) == 0:
        return boxes[:0]
    return boxes[torch.stack(kept)]


def all_of_them(boxes, scores):
    boxes, scores, kept = of_those_above(boxes, scores)
    if not kept:
        return boxes.new_zeros(0, 4), scores.new_zeros(0)
    kept = torch.stack(kept)
    return boxes[kept], scores[kept]


@pytest.mark.parametrize("model", [which_of_them, left_early, all_of_them])
def test_suppression_of_what_may_be_nothing(model):
    torch.manual_seed(0)
    program = hx.export(model, some_boxes(9), dynamic=WORDS)
    assert "it goes on until the data end it" in " ".join(program.report.notes)
    for n, much, high in ((6, 0.3, 0), (1, 0.3, 0), (1, 0.3, 1), (7, 2.0, 1), (60, 1.0, 1)):
        boxes, scores = some_boxes(n, much)
        scores = scores * high
        assert_close(program.run(boxes, scores), model(boxes, scores), msg=f"{n}, {high}")


def by_their_numbers(boxes, scores):
    boxes, scores, kept = of_those_above(boxes, scores)
    return boxes[torch.tensor([int(place) for place in kept], dtype=torch.long)]


def test_what_is_kept_may_be_plain_numbers_behind_the_rounds():
    torch.manual_seed(0)
    program = hx.export(by_their_numbers, some_boxes(9), dynamic=WORDS)
    for n, high in ((6, 0), (1, 1), (30, 1)):
        boxes, scores = some_boxes(n)
        assert_close(
            program.run(boxes, scores * high), by_their_numbers(boxes, scores * high), msg=str(n)
        )

"""Several branches, one behind the other: what each of them gives, the next ones read."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.testing import assert_close

import hx
from hx.ir.value import Node, Value
from hx.merging.branches.node_rows import Join, Row, Split, stands


def prepared(x, y):
    if x.min() < 0:
        x = (x + 1) / 2
    if x.max() > 1:
        x = x / 255
    return x


def clamped(x, y):
    if x.min() < -0.1:
        x = x.clamp(min=0)
    if x.max() > 0.9:
        x = x.clamp(max=0.5)
    if y.mean() > 0.5:
        x = x + y
    return x * 2


def ranged(x, y):
    high = 255 if x.max() > 128 else 1
    low = -1 if x.min() < -0.5 else 0
    return (x - y).abs().mean() / (high - low)


def of_three(x, y):
    a, b, c = (1 if x[0, i] > 0.5 else 0 for i in range(3))
    return x * [2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0][4 * a + 2 * b + c]


def of_first_and_last(x, y):
    a = 2 if x[0, 0] > 0.5 else 3
    if y[0, 0] > 0.5:
        y = y.exp()
    return x * (a * (5 if x[0, 1] > 0.5 else 7)), y


def early(x, y):
    a, b = x.max() > 1, y.min() < 0
    if a and not b:
        return x
    if b and not a:
        return y
    return x + y


def one_in_the_other(x, y):
    if x.min() < 0:
        x = x.abs()
        if x.max() > 1:
            x = x / 255
    if y.max() > 1:
        y, x = x, y * 2
    return x - y, x


def of_groups(x, y):
    group = (y[0] * 3).long()
    return torch.stack(
        [x[:, group == k].mean(1) if (group == k).any() else torch.zeros(2) for k in range(3)]
    )


def of_rows(x, y):
    kept = []
    for row, other in zip(x, y):
        kept.append(row * 2 if other.sum() > 0 else torch.ones(6))
    return torch.cat(kept).reshape(2, 6)[:, 1:] + 1


MODELS = [
    prepared,
    clamped,
    ranged,
    of_three,
    of_first_and_last,
    early,
    one_in_the_other,
    of_groups,
    of_rows,
]


def inputs():
    for seed in range(40):
        torch.manual_seed(seed)
        scales, shifts = [0.1, 1.0, 3.0, 300.0], [-0.7, 0.0, 0.3, 0.7]
        drawn = (torch.randn(2, 6), torch.rand(2, 6))[seed % 2]
        x = drawn * scales[seed % 4] + shifts[seed // 4 % 4]
        yield x, torch.randn(2, 6) * scales[seed // 8 % 4] + shifts[seed // 2 % 4]


@pytest.mark.parametrize("recorded", [0, 1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_every_way_is_right(model, recorded):
    torch.manual_seed(recorded)
    x, y = torch.rand(2, 6), torch.rand(2, 6)
    if recorded:
        x, y = (x - 0.5) * 300, (y - 0.5) * recorded
    program = hx.export(model, (x, y))
    assert all(escape.carried for escape in program.report.escapes)
    for x, y in inputs():
        assert_close(program.run(x, y), model(x, y), rtol=1e-4, atol=1e-4)


class Line:
    value = asked = None
    yes = True


def test_a_value_is_read_where_it_can_be_seen():
    x, inside, out, later = (Value(torch.float32, (2,)) for _ in range(4))
    side = [Node("Neg", "", [x], [inside], {}, None)]
    split = Split(Line(), {True: side, False: []}, [Join(out, {True: inside, False: x})])
    behind = Node("Abs", "", [out], [later], {}, None)
    assert stands(Row([split, behind], [later], {"x": x}, ()))
    assert not stands(Row([behind, split], [later], {"x": x}, ()))
    assert not stands(Row([split, behind], [inside], {"x": x}, ()))
    split.joins[0].of[False] = later
    assert not stands(Row([split, behind], [later], {"x": x}, ()))


def of_two_sizes(x):
    h, w = x.shape
    if h % 2:
        x = x * 2
    if w % 2:
        x = x + 1
    return x


def grids(x):
    ends = [(n - 1, n - 1) if n % 2 else (n, n) for n in x.shape]
    a, b = (torch.arange(-m / 2, n / 2) / k for (m, k), n in zip(ends, x.shape))
    return x + a[:, None] + b


@pytest.mark.parametrize("model", [of_two_sizes, grids])
def test_two_sizes_go_their_ways_independently(model):
    program = hx.export(model, torch.rand(8, 10), dynamic={"x": {0: "h", 1: "w"}})
    assert not program.report.promised
    for h, w in [(8, 10), (9, 11), (9, 12), (6, 7), (3, 3), (2, 2), (17, 5)]:
        x = torch.rand(h, w)
        assert_close(program.run(x), model(x))


def levels(x):
    """At most so many of each level of a pyramid: the small ones are never longer than the large."""
    outs = []
    for stride in (1, 2, 4):
        y = x[:, ::stride, ::stride].flatten(1)
        if y.shape[1] > 10:
            y = y.topk(10)[0]
        outs.append(y)
    return torch.cat(outs, 1)


def levels_of_their_own(a, b, c):
    outs = [x.topk(10)[0] if x.shape[1] > 10 else x for x in (a, b, c)]
    return torch.cat(outs, 1)


@pytest.mark.parametrize("recorded", [(6, 7), (20, 30)])
def test_where_one_size_answers_for_another(recorded):
    dynamic = {"x": {1: "h", 2: "w"}}
    program = hx.export(levels, torch.rand(2, *recorded), dynamic=dynamic)
    assert not program.report.promised
    for h, w in ((1, 1), (3, 3), (3, 4), (2, 9), (5, 5), (7, 6), (12, 13), (40, 3), (31, 40)):
        x = torch.rand(2, h, w)
        assert_close(program.run(x), levels(x))


def test_every_size_on_either_side():
    dynamic = {name: {1: name.upper()} for name in "abc"}
    program = hx.export(levels_of_their_own, tuple(torch.rand(2, n) for n in (20, 4, 7)),
                        dynamic=dynamic)  # fmt: skip
    for sizes in itertools.product((1, 10, 11, 30), repeat=3):
        inputs = [torch.rand(2, n) for n in sizes]
        assert_close(program.run(*inputs), levels_of_their_own(*inputs))


def both_at_once(x):
    if x.max() > 1 and x.min() < 0:
        return x * 2
    return x


def one_of_two(x):
    return x * 2 if x.max() > 1 or x.min() < 0 else x - 1


def inner_alone(x):
    y = x
    if x.max() > 1:
        if x.min() < 0:
            y = y * 2
    return y


def all_of_three(x):
    if x.max() > 1 and x.min() < 0 and x.sum() > 0:
        x = x * 2
    return x + 1


def with_a_cond_within(x):
    if x.max() > 1:
        return torch.cond(x.min() < 0, lambda x: x + 1, lambda x: x * 2, (x,))
    return x * 3


def five(x):
    if x.max() > 1:
        x = x * 0.9
    if x.sum() > 20:
        x = x + 1
    if x.mean() > 5:
        x = x * 0.8
    if x[0, 0] > 2:
        x = x + 0.5
    if x[0, 1] > 2:
        x = x - 0.5
    return x


@pytest.mark.parametrize(
    "model", [both_at_once, one_of_two, inner_alone, all_of_three, with_a_cond_within, five]
)
@pytest.mark.parametrize("given", [0.0, 1.0, 9.0])
def test_a_way_that_changes_nothing_hides_no_other(model, given):
    torch.manual_seed(0)
    x = torch.rand(3, 4) if not given else torch.randn(3, 4) * given
    program = hx.export(model, x, strict=True)
    for scale in (0.1, 1.0, 9.0):
        for shift in (-1.0, 0.0, 0.5, 2.0):
            for x in (torch.rand(3, 4) * scale + shift, torch.randn(3, 4) * scale + shift):
                assert_close(program.run(x), model(x))


def the_best(x):
    found = torch.nonzero(x > 0)
    if found.size(0) > 10:
        found = torch.nonzero(x > x.flatten().topk(10)[0][-1])
    if found.size(0) == 0:
        return torch.zeros(3, 2), found
    return found.float().mean(0).repeat(3, 1), found


def centres(x):
    """As panoptic segmentation finds them: there may be too many, or none."""
    heat = torch.nn.functional.threshold(x + 1, 0.1, -1.0)
    found = torch.nonzero(heat > 0)
    if found.size(0) > 10:
        found = torch.nonzero(heat > heat.flatten().topk(10)[0][-1].clamp_(min=0))
    if found.size(0) == 0:
        return torch.zeros_like(heat), found
    return (found[:, None, None].float() - heat[None, :, :, None]).norm(dim=-1).amin(0), found


def of_each_class(x):
    """As detectors keep what each class has, without what lies over it."""
    found, labels = [], []
    for c in range(3):
        rows, scores = x[x[:, c] > 1, :], x[x[:, c] > 1, c]
        if scores.size(0) == 0:
            continue
        scores, order = scores.sort(descending=True)
        kept = order[torch.cdist(rows[order], rows[order]).triu(1).amax(0) <= 3]
        found.append(rows[kept])
        labels.append(torch.full_like(scores[kept], c, dtype=torch.long))
    if len(found) == 0:
        return torch.zeros(0, x.shape[1]), torch.zeros(0, dtype=torch.long)
    return torch.cat(found), torch.cat(labels)


@pytest.mark.parametrize("model", [the_best, centres, of_each_class])
def test_how_many_were_found_is_asked_of_what_either_side_gives(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(8, 7), dynamic={"x": {0: "n"}})
    for n in (1, 3, 8, 40):
        for scale in (-1.0, 0.0, 0.3, 1.0, 3.0):
            x = torch.randn(n, 7) * scale
            assert_close(program.run(x), model(x))

"""Which of equal elements an index picks is nobody's promise; that it picks such a one is."""

from __future__ import annotations

import pytest
import torch
from called import Plain, asked

import hx
from hx import converter
from hx.errors import VerificationError
from hx.proof.differences import ties

ROWS = torch.arange(400).remainder(7).float().reshape(2, 200)  # each element stands there often
CLOSE = ROWS + torch.linspace(0, 1e-3, 200)  # all differ, until somebody rounds them


def largest(x):
    return torch.topk(x, 5)


def several(x):
    """What follows from an index is nothing like what follows from the other."""
    values, places = (x - 1).topk(5, dim=0, largest=False)
    return values, places, (x + torch.arange(200)[:, None]).gather(0, places) * 2


@pytest.mark.parametrize(
    "function, x",
    [
        (largest, ROWS),
        (several, ROWS.mT.contiguous()),
        (largest, ROWS.bfloat16()),
        (largest, ROWS.to(torch.int8)),
        (lambda x: x.reshape(4, 100).topk(5, -1, False), ROWS),
        (lambda x: x.sort(-1, True), ROWS),
        (lambda x: (x > 2).sort(-1, True), ROWS),
        (lambda x: x.argsort(0, True), ROWS.mT.contiguous()),
        (lambda x: x.kthvalue(30), ROWS),
        (lambda x: x.kthvalue(30, 0, keepdim=True), ROWS.mT.contiguous()),
    ],
)
def test_picks_of_equal_elements_are_right(function, x):
    told = hx.export(Plain(function), x).proof.summary()
    assert "part by part on " in told
    assert "where ties decide at TopK of torch." in told and "test_ties.py" in told
    assert "rounding" not in told


def test_rounding_and_ties_are_both_told():
    def both(x):
        unit = x.softmax(-1).sum(-1) >= 1.0
        return unit, largest(unit.float())

    proof = hx.export(Plain(both), torch.randn(500, 40)).proof
    usual = [case for case in proof.cases if "values" not in case.name]
    assert usual and all("rounding decides" in case.by_parts for case in usual)
    assert "torch.topk" in proof.summary() and ", and ties at TopK" in proof.summary()


def picking(make):
    """A converter of topk that makes values and indices from x and TopK."""

    @converter("torch.topk")
    def topk(op, input, k, dim=-1, largest=True, sorted=True):
        def ordered(x, k=k, axis=1, largest=1):
            return op.TopK(x, op.sizes([k]), axis=axis, largest=largest, outputs=2)

        return make(op, input, ordered)

    return topk


def right(op, x, ordered):
    return ordered(x)


def smallest(op, x, ordered):
    return ordered(x)[0], ordered(x, largest=0)[1]


def reversed_order(op, x, ordered):
    values, places = ordered(x)
    return values, op.Gather(places, op.constant([4, 3, 2, 1, 0]), axis=1)


def the_next(op, x, ordered):
    values, places = ordered(x)
    return values, op.Add(places, 1)


def the_first_of_all(op, x, ordered):
    values, places = ordered(x)
    return values, op.Gather(places, op.constant([0] * 5), axis=1)


def other_rows(op, x, ordered):
    values, places = ordered(x)
    return values, op.Gather(places, op.constant([1, 0]), axis=0)


def of_another(op, x, ordered):
    return ordered(x)[0], ordered(op.Abs(op.Sub(x, 3.0)))[1]


def of_rounded(op, x, ordered):
    """They are equal here only: PyTorch's are the largest, and these are not."""
    return ordered(x)[0], ordered(op.Round(x))[1]


def of_narrower(op, x, ordered):
    return ordered(x)[0], ordered(op.cast(x, torch.int64))[1]


def test_the_right_ones_are_taken():
    first = ROWS.sort(dim=-1, descending=True, stable=True)[1][:, :5]
    assert not torch.equal(largest(ROWS)[1], first), "PyTorch would pick what ONNX picks"
    program = asked(Plain(largest), ROWS, picking(right))
    assert "ties decide" in program.proof.summary()


@pytest.mark.parametrize(
    "wrong", [smallest, reversed_order, the_next, the_first_of_all, other_rows, of_another]
)
def test_an_index_of_another_element_is_wrong(wrong, tmp_path):
    with pytest.raises(VerificationError, match=r"first off: \w+ of torch\.topk"):
        asked(Plain(largest), ROWS, picking(wrong), path=tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [of_rounded, of_narrower])
def test_elements_that_are_equal_only_in_the_file_are_not(wrong):
    assert all(len(row.unique()) == 200 for row in CLOSE)
    with pytest.raises(VerificationError, match="elements differ"):
        asked(Plain(largest), CLOSE, picking(wrong))


def test_a_stable_order_is_a_promise():
    @converter("torch.sort")
    def turned(op, input, dim=-1, descending=False, stable=False):
        """Equal elements the other way round."""
        back = op.constant(list(range(199, -1, -1)))
        found = op.TopK(input, op.sizes([200]), axis=1, largest=0, outputs=2)
        return tuple(op.Gather(each, back, axis=1) for each in found)

    with pytest.raises(VerificationError, match="elements differ"):
        asked(Plain(lambda x: x.sort(dim=-1, descending=True, stable=True)), ROWS, turned)


def test_the_first_of_the_largest_is_a_promise():
    @converter("torch.argmax")
    def last(op, input, dim=None, keepdim=False):
        return op.ArgMax(input, axis=1, keepdims=0, select_last_index=1)

    with pytest.raises(VerificationError, match="elements differ"):
        asked(Plain(lambda x: (x.argmax(1), largest(x))), ROWS, last)


def test_a_mistake_beside_ties_is_found():
    @converter("torch.Tensor.softmax")
    def another_softmax(op, input, dim):
        return op.Mul(op.Softmax(input, axis=dim), 1 + 1e-4)

    def function(x):
        return largest(x), x.softmax(-1)

    with pytest.raises(VerificationError):
        asked(Plain(function), ROWS, another_softmax)


X = torch.tensor([[5.0, 1.0, 5.0, 3.0, 5.0], [2.0, 2.0, float("nan"), 0.0, float("nan")]])
WANT = torch.tensor([[0, 2, 3], [2, 0, 3]])


@pytest.mark.parametrize(
    "got, right",
    [
        ([[2, 0, 3], [2, 1, 3]], True),
        ([[4, 2, 3], [4, 0, 3]], True),  # one NaN is as good as another
        ([[2, 0, 1], [2, 0, 3]], False),  # another element
        ([[3, 0, 2], [2, 0, 3]], False),  # the same ones at other places
        ([[2, 2, 3], [2, 0, 3]], False),  # one twice
        ([[-1, 0, 3], [2, 0, 3]], False),  # PyTorch counts from the front
        ([[5, 0, 3], [2, 0, 3]], False),  # out of range
        ([[2, 0, 3, 1], [2, 0, 3, 1]], False),
    ],
)
def test_indices_are_held_against_what_they_pick(got, right):
    got = torch.tensor(got)
    for axis, turned in ((1, lambda t: t), (-1, lambda t: t), (0, lambda t: t.mT)):
        pick = ties.Pick("TopK", "x", axis, single=False)
        assert ties.same(pick, turned(X), turned(got), turned(WANT)) is right
        assert not ties.same(pick, turned(X), turned(got).int(), turned(WANT))
        one_of_each = ties.Pick("TopK", "x", axis, single=True)
        assert not ties.same(one_of_each, turned(X), turned(got), turned(WANT))


def test_one_of_each_row_has_no_order():
    pick = ties.Pick("TopK", "x", 1, single=True)
    for shape in ((2,), (2, 1)):
        want = torch.tensor([0, 0]).reshape(shape)
        assert ties.same(pick, X, torch.tensor([4, 1]).reshape(shape), want)
        assert not ties.same(pick, X, torch.tensor([3, 1]).reshape(shape), want)


def gate(x):
    """Which experts a token goes to, and how much each of them counts."""
    shares, experts = torch.topk(x.softmax(-1), 6, sorted=False)
    return experts, shares / shares.sum(-1, keepdim=True)


@pytest.mark.parametrize("function", [gate, lambda x: x.topk(6, sorted=False).values])
def test_an_order_that_nobody_promised_is_free(function):
    x = torch.randn(4, 64)
    program = hx.export(function, x, dynamic={"x": {0: "b"}})
    assert program.proof.ok
    again = torch.randn(9, 64)
    for got, want in zip(program.run(again), function(again)):
        torch.testing.assert_close(got.sort(-1).values, want.sort(-1).values)


@converter("torch.topk")
def the_least(op, input, k, dim=-1, largest=True, sorted=True):
    return op.TopK(input, op.sizes([k]), axis=dim, largest=0, sorted=0, outputs=2)


def test_which_ones_are_taken_is_a_promise_in_any_order():
    with pytest.raises(VerificationError):
        asked(Plain(gate), torch.randn(4, 64), the_least)

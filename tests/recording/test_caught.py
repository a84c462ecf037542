"""Exceptions that the model catches: what PyTorch raises leads it one way or another."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hx


def in_fives(x):
    try:
        x.view(-1, 5)
    except RuntimeError:
        return x * 2
    return x * 3


def first_above(x):
    try:
        return x[(x > 1).nonzero()[0, 0]]
    except IndexError:
        return x[0] * 0


def largest_above(x):
    try:
        return x[x > 1].max()
    except RuntimeError:
        return x.max() * 0


def with_the_tenth(x):
    y = x * 2
    with contextlib.suppress(IndexError):
        y = y + x[20]
    return y


class Convolved(nn.Module):
    """What is raised within a layer of PyTorch, and caught around it."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 5)

    def forward(self, x):
        try:
            return self.conv(x.t()[None]).sum()
        except RuntimeError:
            return x.sum()


MODELS = [in_fives, first_above, largest_above, with_the_tenth, Convolved().eval()]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: getattr(model, "__name__", "layer"))
def test_no_strict_export_has_one(model):
    with pytest.raises(hx.EscapeError, match=r"the model catches the (Runtime|Index)Error of "):
        hx.export(model, torch.rand(3, 4), dynamic={"x": {0: "b"}}, strict=True, verify=False)


@pytest.mark.parametrize("model", [in_fives, Convolved().eval()], ids=["function", "layer"])
def test_where_sizes_decide_the_proof_goes_to_those_that_do(model):
    with pytest.raises(hx.VerificationError, match="b=5 inputs: wrong"):
        hx.export(model, torch.rand(3, 4), dynamic={"x": {0: "b"}})


def test_the_file_is_promised_up_to_there(line_of):
    program = hx.export(with_the_tenth, torch.rand(3, 4), dynamic={"x": {0: "b"}})
    (left,) = program.report.escapes
    assert left.where.line == line_of(with_the_tenth, "x[20]")
    assert program.report.promised == {"b": "b<=20"}
    x = torch.rand(20, 4)
    assert_close(program.run(x), with_the_tenth(x))


def of_plain_sizes(x):
    y = x.t()
    try:
        return y.view(-1)
    except RuntimeError:
        return y.reshape(-1)


def of_what_it_is(x):
    try:
        return x + len(x.sum())
    except TypeError:
        return x * 2


@pytest.mark.parametrize("model", [of_plain_sizes, of_what_it_is])
def test_what_always_raises_is_no_escape(model):
    assert not hx.export(model, torch.rand(3, 4), strict=True).report.escapes


def test_nor_is_what_pytorch_catches_itself(monkeypatch):
    def tried(x):
        try:
            return x.view(-1, x.shape[0] * x.shape[0] + 1)
        except RuntimeError:
            return x * 2

    def caught():
        program = hx.export(lambda x: tried(x) + 1, torch.rand(3), dynamic={"x": {0: "b"}})
        return [each for each in program.report.escapes if each.kind == "caught"]

    assert caught()
    monkeypatch.setattr(tried, "__code__", tried.__code__.replace(co_filename=torch.__file__))
    assert not caught()


def factored(a):
    try:
        return torch.linalg.cholesky(a @ a.mT + torch.eye(3))
    except RuntimeError:
        return a


def inverted(a):
    with contextlib.suppress(torch.linalg.LinAlgError):
        return torch.linalg.inv(a)
    return torch.linalg.pinv(a)


def encoded(i):
    try:
        return nn.functional.one_hot(i, 5)
    except Exception:
        return i


def placed(x, i):
    try:
        return x.gather(0, i)
    except (IndexError, RuntimeError):
        return x


def within(a):
    try:
        return nothing_caught(a)
    except RuntimeError:
        return a


def nothing_caught(a):
    return torch.linalg.inv(a)


def caught_for_the_import(a):
    try:
        return torch.linalg.inv(a)
    except ImportError:
        return a


def raised_again(a):
    try:
        return torch.linalg.inv(a)
    except RuntimeError:
        raise


def at_a_known_place(a):
    try:
        return a[torch.tensor(1)]
    except IndexError:
        return a


SQUARE, PLACES = torch.rand(3, 3) + torch.eye(3), torch.tensor([1, 2])
MAY_RAISE = [
    (factored, (SQUARE,)), (inverted, (SQUARE,)), (encoded, (PLACES,)), (within, (SQUARE,)),
    (placed, (torch.rand(3), PLACES)),
]  # fmt: skip


@pytest.mark.parametrize(("forward", "args"), MAY_RAISE)
def test_a_call_that_values_may_let_raise_is_open(forward, args):
    program = hx.export(forward, args, verify=False)
    assert [escape.kind for escape in program.report.escapes] == ["raises"]
    assert "no error is raised" in str(program.report)
    with pytest.raises(hx.EscapeError, match="raised nothing"):
        hx.export(forward, args, strict=True, verify=False)


@pytest.mark.parametrize(
    "forward", [nothing_caught, caught_for_the_import, raised_again, at_a_known_place]
)
def test_what_nobody_catches_decides_nothing(forward):
    assert not hx.export(forward, SQUARE, verify=False).report.escapes

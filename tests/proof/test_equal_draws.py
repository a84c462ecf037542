"""Draws that are in a loop or in a branch, or that the model does not make, hide no mistake."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hx

ROUNDS = {"x": {1: "n"}}
ROWS = {"x": {0: "b"}}


def sampler(x):
    """Twelve steps, recorded beside eleven rounds: nobody can tell which of them sizes say."""
    h = x[:, 0]
    for _ in range(12):
        h = h * 0.9 + 0.5 + torch.randn(4) * 1e-6
    return torch.stack([x[:, t] + h for t in range(x.shape[1])], 1)


def longer(x):
    if x.shape[1] > 9:
        x = x * 2
    h = x[:, 0] * 0
    for t in range(x.shape[1]):
        h = h * 0.5 + x[:, t] + torch.randn(4) * 1e-6
    return h


def right_or_refused(model, x, others, dynamic, atol=1e-4):
    try:
        program = hx.export(model, x, dynamic=dynamic)
    except hx.VerificationError:
        return
    for other in others:
        torch.testing.assert_close(program.run(other), model(other), rtol=0, atol=atol)


@pytest.mark.parametrize("model", [sampler, longer])
def test_a_loop_that_draws_is_compared(model):
    torch.manual_seed(0)
    others = [torch.randn(2, n, 4) for n in (8, 11, 13, 40)]
    right_or_refused(model, torch.randn(2, 8, 4), others, ROUNDS)


def above(x):
    return x * (2 + torch.rand(()) * 1e-6) if x.shape[0] > 4 else x


def below(x):
    return x * (2 + torch.rand(()) * 1e-6) if x.shape[0] <= 4 else x


@pytest.mark.parametrize("model", [above, below])
def test_a_file_that_draws_where_the_model_does_not_is_wrong(model):
    torch.manual_seed(0)
    others = [torch.randn(n, 4) for n in (1, 3, 4, 5, 9)]
    right_or_refused(model, torch.randn(3, 4), others, ROWS)


@pytest.mark.parametrize("model", [above, below])
def test_where_the_model_gives_the_same_whatever_it_draws_that_is_right(model, monkeypatch):
    from hx.proof.random import draws

    torch.manual_seed(0)
    monkeypatch.setattr(draws, "_on_its_draws", lambda *_: None)
    monkeypatch.setattr(draws, "_on_equal_numbers", lambda *_: None)
    others = [torch.randn(n, 4) for n in (1, 3, 4, 5, 9)]
    right_or_refused(model, torch.randn(3, 4), others, ROWS)


def dropped(x):
    h, outs = x[:, 0] * 0, []
    for t in range(x.shape[1]):
        h = torch.tanh(nn.functional.dropout(h, 0.3, training=True) + x[:, t])
        outs.append(h)
    return torch.stack(outs, 1)


def sampled(x):
    outs = []
    for t in range(x.shape[1]):
        lot = x[:, t].softmax(-1).multinomial(1)
        kept = torch.bernoulli(torch.full((2, 4), 0.5))
        part = torch.zeros(2, 4)
        part[:, 1:3].normal_()
        outs.append(x[:, t].gather(1, lot) * kept + part * torch.empty(2, 4).exponential_())
    return torch.stack(outs, 1)


@pytest.mark.parametrize("model", [dropped, sampled])
def test_a_loop_of_draws_is_one_and_all_behind_them_is_compared(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(2, 8, 4), dynamic=ROUNDS)
    assert "Loop" in {node.op_type for node in program.model.graph}
    assert all(case.equal_draws for case in program.proof.cases)
    assert not any(output.random for case in program.proof.cases for output in case.outputs)
    assert "on equal numbers in place of random ones" in program.proof.summary()
    assert program.run(torch.randn(2, 30, 4)).shape == (2, 30, 4)
    first, again = (program.run(torch.ones(2, 8, 4)) for _ in range(2))
    assert not torch.equal(first, again)


def test_a_draw_on_one_side_of_a_branch_is_compared_and_told():
    def model(x):
        if x.max() > 100:
            x = x + torch.rand(1)
        return x * 2

    program = hx.export(model, torch.randn(2, 4))
    assert any("torch.rand at" in note for note in program.report.notes)
    assert all(case.equal_draws for case in program.proof.cases)
    quiet, loud = torch.randn(2, 4), torch.full((2, 4), 200.0)
    assert torch.equal(program.run(quiet), quiet * 2)
    assert 0 < (program.run(loud) - loud * 2).max() < 2


def test_what_draws_in_a_loop_and_cannot_be_compared_is_not_rolled(monkeypatch):
    from hx.proof.random import draws

    monkeypatch.setattr(draws, "replaced", lambda model: False)
    with pytest.raises(hx.VerificationError, match="n=9"):
        hx.export(dropped, torch.randn(2, 8, 4), dynamic=ROUNDS)

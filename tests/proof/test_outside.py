"""What is in a model's answer beside its inputs: draws of Python and numpy, what it keeps."""

from __future__ import annotations

import itertools
import os
import random
import time
import uuid

import numpy as np
import pytest
import torch
from torch import nn

import hx


def by_python(x):
    return x * random.choice([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])


def by_numpy(x):
    return x + torch.from_numpy(np.random.rand(4).astype("float32"))


def layer_drop(x):
    """As layer drop does: it draws, and uses what it drew in training only."""
    random.random()
    return x * 2


@pytest.mark.parametrize(
    ("model", "told"), [(by_python, "Python's random module"), (by_numpy, "numpy.random")]
)
def test_what_others_drew_is_not_a_constant(model, told):
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(model, torch.randn(3, 4))
    line = model.__code__.co_firstlineno + 1
    assert told in str(caught.value) and f"{__file__}:{line}" in str(caught.value)


def test_draws_without_effect_are_told_and_their_generators_go_on_as_before():
    before = random.getstate(), np.random.get_state()[1].tobytes()
    program = hx.export(layer_drop, torch.randn(3, 4))
    (escape,) = program.report.escapes
    assert (escape.kind, escape.where.function) == ("draw", "layer_drop")
    assert before == (random.getstate(), np.random.get_state()[1].tobytes())
    assert hx.export(lambda x: x * 2, torch.randn(3, 4), strict=True).proof.ok


def embedding(shift):
    return torch.arange(4.0) + shift


class Embeds(nn.Module):
    def forward(self, x):
        return self.places() * x.sum()

    def places(self):
        shift = random.randrange(90)
        return embedding(shift)


def test_a_function_that_calls_nothing_itself_is_told_as_the_one_that_drew(line_of):
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(Embeds(), torch.randn(3, 4))
    assert f"{__file__}:{line_of(Embeds.places, 'randrange')}" in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x + nn.init.normal_(torch.empty(4)),
        lambda x: x + nn.init.trunc_normal_(torch.empty(4), std=0.02),
        lambda x: nn.init.xavier_uniform_(torch.empty(4, 4)) @ x.mT,
    ],
    ids=["normal", "trunc_normal", "xavier"],
)
def test_what_torch_nn_init_draws_is_drawn_by_the_graph(model):
    program = hx.export(model, torch.randn(3, 4))
    assert any("draws random numbers" in note for note in program.report.notes)
    assert any(node.op_type.startswith("Random") for node in program.model.graph)


class Grows(nn.Module):
    def forward(self, x):
        if not hasattr(self, "layer"):
            self.layer = nn.Linear(x.shape[-1], 3)
        return self.layer(x)


def test_a_model_that_makes_its_layers_as_it_first_runs_has_to_be_run_before():
    model, x = Grows(), torch.randn(2, 4)
    with pytest.raises(hx.UsageError, match=r"the parameter layer\.weight as it runs"):
        hx.export(model, x)
    assert not hasattr(model, "layer")
    expected = model(x)
    torch.testing.assert_close(hx.export(model, x).run(x), expected)


class Counts(nn.Module):
    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def forward(self, x):
        if isinstance(self.kept, int):
            self.kept += 1
            return x * self.kept
        if isinstance(self.kept, list):
            self.kept.append(x)
            return sum(self.kept)
        y = x + self.kept
        self.kept.add_(1)
        return y


class Caches(nn.Module):
    def forward(self, x):
        if not hasattr(self, "table"):
            self.table = torch.arange(4.0)
        return x + self.table


class Attends(nn.Module):
    """Over the keys of all its calls: those of equal inputs change nothing, and so does their mean."""

    def __init__(self, mean):
        super().__init__()
        self.mean, self.past = mean, None

    def forward(self, x):
        self.past = x if self.past is None else torch.cat((self.past, x), 1)
        if self.mean:
            return x + self.past.mean(1, keepdim=True)
        return nn.functional.scaled_dot_product_attention(x, self.past, self.past)


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("ran", [True, False])
def test_a_cache_that_grows_is_told_though_the_same_is_in_it_twice(mean, ran):
    model = Attends(mean)
    if ran:
        model(torch.randn(1, 3, 8))
    (note,) = hx.export(model, torch.randn(1, 3, 8)).report.notes
    assert "answers its next call otherwise" in note and "(past)" in note


class First(nn.Module):
    """What it keeps of its first call decides all others."""

    kept = None

    def forward(self, x):
        self.kept = x.mean() if self.kept is None else self.kept
        return x - self.kept


def test_what_is_kept_of_the_first_call_is_told():
    (note,) = hx.export(First(), torch.randn(3, 4)).report.notes
    assert "answers its next call otherwise" in note and "(kept)" in note


@pytest.mark.parametrize("size", [{}, {"x": {0: "b"}}])
def test_what_is_kept_of_sizes_alone_is_not_told(size):
    model = Caches()
    model(torch.randn(2, 4))
    assert not hx.export(model, torch.randn(2, 4), dynamic=size).report.notes


@pytest.mark.parametrize("kept", [0, [], torch.ones(4)], ids=["number", "list", "tensor"])
def test_a_model_that_counts_its_calls_is_told(kept):
    before = str(kept)
    (note,) = hx.export(Counts(kept), torch.randn(2, 4)).report.notes
    assert "answers its next call otherwise" in note and "(kept)" in note
    assert str(kept) == before


def test_what_a_model_keeps_to_be_faster_is_nothing_to_tell():
    assert not hx.export(Caches(), torch.randn(2, 4)).report.notes


def seeded(x):
    torch.manual_seed(0)
    noise = torch.randn_like(x) + torch.empty(4).uniform_() + nn.init.normal_(torch.empty(4))
    return x[torch.randperm(3)] + noise


def seeded_for_a_while(x):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        noise = torch.randn(4)
    return x + noise, torch.rand(2)


def test_what_a_model_draws_behind_a_seed_of_its_own_is_constant():
    x = torch.randn(3, 4)
    program = hx.export(seeded, x)
    assert not program.report.notes and not program.proof.random
    torch.testing.assert_close(program.run(x * 2), seeded(x * 2))
    program = hx.export(seeded_for_a_while, x)
    torch.testing.assert_close(program.run(x)[0], seeded_for_a_while(x)[0])
    assert program.proof.random == ["output_1"]
    program = hx.export(seeded, x, dynamic={"x": {1: "n"}}, verify=False)
    assert any("draws its own" in note for note in program.report.notes), "as many as there are"


VARYING = {
    "a clock": (lambda x: x * (1 + time.time() % 1), "it reads a clock (time.time)"),
    "a draw": (lambda x: x * sum(os.urandom(9)), "it draws random numbers outside of PyTorch (os."),
    "an identifier": (
        lambda x: x * (uuid.uuid4().int % 1000),
        "it draws random numbers outside of PyTorch (uuid.uuid4)",
    ),
}


@pytest.mark.parametrize("what", VARYING)
def test_what_makes_each_answer_another_one_is_named_with_its_line(what):
    model, told = VARYING[what]
    with pytest.raises(hx.VerificationError) as refused:
        hx.export(model, torch.ones(2, 3))
    line = model.__code__.co_firstlineno
    assert f"test_outside.py:{line} {told}" in str(refused.value)


class Taking(nn.Module):
    def __init__(self):
        super().__init__()
        self.numbers = (number for number in itertools.count(1))

    def forward(self, x):
        return x * next(self.numbers)


class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)

    def forward(self, x):
        return x * self.rng.random()


class OfItsClass(nn.Module):
    calls = 0

    def forward(self, x):
        OfItsClass.calls += 1
        return x * OfItsClass.calls


@pytest.mark.parametrize(
    "kind, told",
    [
        (Taking, "it takes the next item of an iterator (numbers)"),
        (Drawing, "it draws random numbers outside of PyTorch (from rng)"),
        (OfItsClass, "it writes to OfItsClass.calls, which it finds changed at its next call"),
    ],
)
def test_what_a_model_keeps_out_of_reach_is_named_with_its_line(kind, told):
    with pytest.raises(hx.VerificationError) as refused:
        hx.export(kind(), torch.ones(2, 3))
    message = str(refused.value)
    assert "asked again, the model itself gives another answer to these inputs: at " in message
    assert told in message

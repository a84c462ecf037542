"""Results of the model that are known: equal inputs are run once, unless the run itself matters."""

from __future__ import annotations

import collections
import dataclasses

import pytest
import torch
from torch.testing import assert_close

import hx
from hx.budget import BUDGET
from hx.ir import dynamic_axes
from hx.ir.recipe import Recipe
from hx.proof.differences.float64 import InFloat64
from hx.proof.file_proof import Case
from hx.proof.first_calls import settle_state
from hx.recording.prepare import prepare
from hx.recording.recorder import Recorder
from hx.recording.runner import ModelRunner
from hx.recording.runs import known_results
from hx.recording.runs.known_results import Raised, Returned, Unfinished
from hx.torchworld.modes.operator_modes import Seeing


class Logged:
    """A model that notes the inputs of its runs, which its results do not depend on."""

    def __init__(self, compute):
        self.compute, self.runs = compute, []

    def __call__(self, x):
        self.runs.append(x)
        return self.compute(x)


def runner_of(compute, x=None):
    """Return the runner of a model that was recorded, and the list of its runs since then."""
    model = Logged(compute)

    def call(x):
        return model(x)

    x = torch.rand(2, 3) if x is None else x
    request, _ = prepare(call, (x,), None, ["x"], {"x": {0: "n"}}, dynamic_axes.axes)
    recorder = Recorder(hx.Registry.standing(), 20)
    trace = recorder.record(Recipe(request, request.call.tensors))
    settle_state(recorder, trace)
    model.runs.clear()
    return ModelRunner.of(recorder, trace), model.runs


def test_equal_inputs_are_run_once():
    runner, runs = runner_of(lambda x: x.exp())
    x = torch.rand(4, 3)
    first, again = runner.known({"x": x}), runner.known({"x": x.clone()})
    assert len(runs) == 1 and again is first
    assert_close(runner.known_results({"x": x}), [x.exp()])
    assert len(runs) == 1


@pytest.mark.parametrize(
    "other",
    [
        torch.tensor([[-0.0, 1, 2]]),
        torch.tensor([[0, 1, 2]]),
        torch.tensor([0.0, 1, 2]),
        torch.tensor([[0.0, 1, 2]]).double(),
        torch.tensor([[0.0], [1.0], [2.0]]).T,
    ],
)
def test_inputs_that_differ_in_anything_are_run(other):
    runner, runs = runner_of(lambda x: 1 / x)
    runner.known({"x": torch.tensor([[0.0, 1, 2]])})
    found = runner.known({"x": other})
    assert len(runs) == 2
    assert_close(found.results, [1 / other])


def test_a_second_strategy_shares_them():
    runner, runs = runner_of(lambda x: x * 2)
    x = torch.rand(4, 3)
    runner.known({"x": x})
    trace = runner.recorder.record(runner.recipe)
    runs.clear()
    other = ModelRunner.of(runner.recorder, trace)
    assert_close(other.known({"x": x}).results, [x * 2])
    assert not runs


def test_a_run_that_matters_is_made():
    runner, runs = runner_of(lambda x: x.exp())
    feeds = {"x": torch.rand(4, 3)}
    runner.known(feeds)
    runner.run(feeds)
    runner.results(feeds)
    runner.twice(feeds)
    runner.in_a_row(lambda run: run(feeds))
    assert len(runs) == 6


def test_a_mode_sees_each_run():
    class Count(Seeing):
        seen = 0

        def see(self, result):
            self.seen += 1

    runner, runs = runner_of(lambda x: x.exp())
    feeds = {"x": torch.rand(4, 3)}
    runner.known(feeds)
    with Count() as count:
        runner.known(feeds)
    assert len(runs) == 2 and count.seen > 0


def test_a_model_that_draws_is_run_again():
    runner, runs = runner_of(lambda x: x + torch.rand(3))
    feeds = {"x": torch.rand(4, 3)}
    runner.known(feeds)
    runner.known(feeds)
    assert len(runs) == 2


def test_a_model_that_could_draw_and_does_not_is_known():
    runner, runs = runner_of(lambda x: torch.nn.functional.dropout(x, 0.5, False))
    feeds = {"x": torch.rand(4, 3)}
    runner.known(feeds)
    runner.known(feeds)
    assert len(runs) == 1


def test_an_error_is_known_without_the_tensors_of_its_run():
    def compute(x):
        if x.shape[0] > 3:
            raise ValueError("too many rows")
        return x * 2

    runner, runs = runner_of(compute)
    feeds = {"x": torch.rand(4, 3)}
    runner.known(feeds)
    found = runner.known(feeds)
    assert isinstance(found, Raised) and str(found.error) == "too many rows"
    assert len(runs) == 1 and found.error.__traceback__ is None
    with pytest.raises(hx.errors.ModelFailed, match="too many rows"):
        runner.known_results(feeds)


def test_inputs_on_which_the_model_may_not_end_are_not_run_again():
    def compute(x):
        while float(x.abs().max()) < 1:
            x = x * 2
        return x

    runner, runs = runner_of(compute)
    zeros = {"x": torch.zeros(2, 3)}
    assert isinstance(runner.known(zeros), Unfinished)
    again = ModelRunner.of(runner.recorder, runner.trace)
    assert isinstance(again.known(zeros), Unfinished)
    assert len(runs) == 1 and again.gave_up


def test_results_beyond_the_limit_in_bytes_are_not_kept(monkeypatch):
    few = dataclasses.replace(BUDGET.bytes, known_results=4 * 3 * 4)
    monkeypatch.setattr(known_results, "BUDGET", dataclasses.replace(BUDGET, bytes=few))
    runner, runs = runner_of(lambda x: x.exp())
    small, large = {"x": torch.rand(4, 3)}, {"x": torch.rand(5, 3)}
    for feeds in (large, small, large, small):
        assert isinstance(runner.known(feeds), Returned)
    assert [len(x) for x in runs] == [5, 4, 5]


def test_the_proof_of_a_second_strategy_asks_nothing_again(monkeypatch):
    log, given = [], torch.rand(3, 4)

    def model(x):
        exporting = torch.compiler.is_exporting()
        log.append((exporting, tuple(x.shape), str(float(x.sum()))))  # also NaN, as a text
        return x * 2 if exporting else x * 3

    def runs():
        log.clear()
        program = hx.export(model, given, dynamic={"x": {0: "n"}})
        x = torch.rand(5, 4)
        assert_close(program.run(x), x * 3)
        return collections.Counter(log)

    once = runs()
    monkeypatch.setattr(known_results.KnownResults, "find", lambda self, key: None)
    every = runs()
    assert once.keys() == every.keys()
    assert once.total() < every.total()


@pytest.mark.parametrize("quantized", [False, True])
def test_results_in_float64_are_those_of_an_earlier_run(quantized):
    runner, runs = runner_of(lambda x: x.exp())
    case = Case("fresh", {"x": torch.rand(4, 3)}, [])
    first, again = (InFloat64(runner, quantized)(case) for _ in range(2))
    assert len(runs) == 1 and first[0].dtype is torch.float64
    assert torch.equal(first[0], again[0])
    assert runner.known_results(case.feeds)[0].dtype is torch.float32

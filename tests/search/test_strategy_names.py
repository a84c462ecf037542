"""Strategies and outcomes in plain words; see also tests/report/test_timeline.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hx.errors import MissingConverters, Unsupported, VerificationError
from hx.ir import dynamic_axes
from hx.ir.outcome import OffersAnswers, OffersBranches, OffersLoops, Refused, Right, Wrong
from hx.ir.recipe import Branches, Flow, Folding, Forced, Loops, Padded, Recipe, Until
from hx.merging.loops import Before
from hx.proof.proof import CaseCheck, Proof
from hx.recording.prepare import prepare
from hx.search.answers import ORDER
from hx.search.strategy_names import outcome_in_words, strategy_name

X = {"x": torch.ones(2, 3)}
REQUEST, _ = prepare(torch.relu, (X["x"],), None, ["x"], {"x": {0: "n"}}, dynamic_axes.axes)
PLAIN = Recipe(REQUEST, X)
LINE, OTHER = ("/home/me/model.py", 12), ("/home/me/model.py", 20)
LOOPS = Loops(Before([]))
UNTIL = Until(LINE, on=True)

FLOWS = {
    "plain recording": Flow(),
    "both ways of the branch at model.py:12": Flow(Branches(lines=(LINE,))),
    "both ways of 2 branches at model.py:12 and model.py:20": Flow(Branches(lines=(LINE, OTHER))),
    "both ways of 5 branches": Flow(Branches(lines=(LINE,) * 5)),
    "both ways of its branches": Flow(Branches()),
    "both ways of the branch at model.py:12, on inputs that were wrong": Flow(
        Branches(required=(X,), lines=(LINE,))
    ),
    "a loop that values end at model.py:12": Flow(until=UNTIL),
    "a loop that values end at model.py:12, with true answers": Flow(
        until=replace(UNTIL, times=None)
    ),
    "loops over sizes": Flow(loops=LOOPS),
    "loops that count their rounds": Flow(loops=replace(LOOPS, numbered=True)),
    "loops over sizes and both ways of the branch at model.py:12": Flow(
        Branches(lines=(LINE,)), LOOPS
    ),
    "formulas for numbers of sizes": Flow(formulas=({"n": 3},)),
}


@pytest.mark.parametrize("name", FLOWS)
def test_the_control_flow_that_is_merged_gives_the_name(name):
    assert strategy_name(replace(PLAIN, flow=FLOWS[name])) == name


@pytest.mark.parametrize(
    "more, differs",
    [
        ({"answers": ORDER[1]}, "told that it is exported, not traced"),
        ({"answers": ORDER[2]}, "told that it is exported to ONNX"),
        ({"answers": ORDER[3]}, "told that it is neither exported nor traced"),
        ({"padding": Padded()}, "as if no size fitted"),
        ({"also_proved": {"given": X}}, "at other sizes"),
        ({"unmerged_reason": "no one graph"}, "nothing merged"),
        ({"folding": Folding.UNFOLDED}, "constants computed in the graph"),
        ({"folding": Folding.COUNTING}, "constants and counts computed in the graph"),
        ({"forced": Forced(by_line={LINE: True})}, "without its other exits"),
    ],
)
def test_a_recording_that_differs_from_a_plain_one_says_how(more, differs):
    assert strategy_name(replace(PLAIN, **more)) == f"plain recording, {differs}"


def test_a_trace_of_derivatives_is_no_plain_recording():
    assert strategy_name(replace(PLAIN, body=torch.relu)) == "PyTorch's trace of the derivatives"


def wrong(*names):
    checks = [CaseCheck("recorded"), *(CaseCheck(name, problem="other") for name in names)]
    return Wrong(VerificationError("wrong", proof=Proof(checks)))


def test_outcomes_are_told_in_a_few_words():
    long = "this cannot be said in ONNX, whatever one does, because there is no operator for it"
    told = {
        "right": Right(None),
        "wrong at n=4": wrong("n=4", "fresh"),
        "wrong at h=4, w=7": wrong("h=4, w=7"),
        "wrong on opposite values at n=2 inputs": wrong("opposite values at n=2"),
        "wrong on fresh inputs": wrong("fresh", "n=4"),
        "wrong: the file cannot be run": Wrong(VerificationError("wrong")),
        "refused: no such thing in ONNX": Refused(Unsupported("no such thing in ONNX\n  and more")),
        "refused: this cannot be said in ONNX, whatever one does, because ...": Refused(
            Unsupported(long)
        ),
        "refused: 1 target has no converter": Refused(
            MissingConverters("1 target has no converter\n  a.b", [])
        ),
        "refused: the model raised ValueError": Refused(ValueError("the model's own")),
        "needs another recording: a number left the graph": OffersAnswers(),
        "needs another recording: the model asks about values": OffersBranches(
            True, (), frozenset()
        ),
        "needs another recording: sizes decide its rounds": OffersLoops(PLAIN, None, False),
    }
    for text, outcome in told.items():
        assert outcome_in_words(outcome, verified=True) == text
    assert outcome_in_words(Right(None), True, "n<=64") == "right for n<=64"
    assert outcome_in_words(Right(None), verified=False) == "not verified"

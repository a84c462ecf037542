"""The test kit proves a case in full at one opset, and compares the others with what it tried there."""

from __future__ import annotations

import pytest

import hx
import hx.program
from hx import case
from hx.testing.cases import CaseFailure, runs_of

OPSETS = [13, 20, 26]


@pytest.fixture
def proofs(monkeypatch):
    """How often a file was proved in full."""
    found, prove = [], hx.program.prove_program

    def counted(*args, **kwargs):
        found.append(args[0])
        return prove(*args, **kwargs)

    monkeypatch.setattr(hx.program, "prove_program", counted)
    return found


def checked(converter, opsets=OPSETS):
    """Check all runs of the cases of a converter; return the ids of those that fail."""
    failed = []
    for run in runs_of(converter.__hx__, opsets):
        try:
            assert run.check().proof.ok
        except CaseFailure:
            failed.append(run.id.removeprefix("torch.relu-0-"))
    return failed


def test_each_way_to_run_a_case_is_proved_once(proofs):
    @hx.converter("torch.relu", cases=[case("float32[n,3]"), case("float32[n,3]")])
    def relu(op, input):
        return op.Relu(input)

    assert not checked(relu)
    assert len(proofs) == 2 * 2  # static and dynamic, of each case
    assert {each.recorder.opset for each in proofs} == {13}


@pytest.mark.parametrize("wrong", OPSETS)
def test_what_is_wrong_at_one_opset_is_found(wrong):
    @hx.converter("torch.relu", cases=[case("float32[n,3]")])
    def relu(op, input):
        return op.Abs(input) if op.opset == wrong else op.Relu(input)

    assert checked(relu) == [f"opset{wrong}", f"opset{wrong}-dynamic"]


@pytest.mark.parametrize("wrong", OPSETS)
def test_what_is_wrong_for_large_values_alone_is_found(wrong):
    @hx.converter("torch.relu", cases=[case("float32[3]")])
    def relu(op, input):
        return op.Clip(input, 0.0, 40.0) if op.opset == wrong else op.Relu(input)

    assert checked(relu) == [f"opset{wrong}"]


def test_a_question_that_is_asked_at_one_opset_alone_has_cases_of_its_own(proofs):
    @hx.converter("torch.relu", cases=[case("float32[n,3]")])
    def relu(op, input):
        if op.opset == 20 and input.shape[0] > 77:
            return op.Abs(input)
        return op.Relu(input)

    assert not checked(relu)  # the file has the way that was recorded, which is right
    assert [each.recorder.opset for each in proofs] == [13, 13, 20]
    assert [len(each.beyond) > 0 for each in proofs] == [False, False, True]


def test_random_numbers_are_compared_at_each_opset(proofs):
    @hx.converter("torch.rand_like", cases=[case("float32[3]")])
    def rand_like(op, input):
        return op.RandomUniformLike(input)

    assert not checked(rand_like, [13, 20])
    assert [each.recorder.opset for each in proofs] == [13, 20]

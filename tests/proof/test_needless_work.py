"""Work that would show nothing new is left out: recordings, proofs and cases."""

from __future__ import annotations

import collections

import pytest
import torch
from tests.shared.pyramid import Pyramid
from tests.shared.recipes_tried import tried

import hx
from hx import program as programs
from hx.proof.sessions import open_file
from hx.recording.calls import target_index
from hx.recording.recorder import Recorder

SIZES = {"x": {2: "h", 3: "w"}}


class Counted:
    """Counts of one export: its recordings by shape and kind, its proofs, and the recipes it tried."""

    def __init__(self, monkeypatch):
        self.merged, self.heard = collections.Counter(), collections.Counter()
        self.proofs = []
        record, prove = Recorder.record, programs.prove_program

        def recorded(recorder, recipe, **options):
            known = self.heard if options.get("dry") else self.merged
            flow = recipe.flow.branches is not None
            known[flow, recipe.padding is not None, tuple(recipe.inputs["x"].shape)] += 1
            return record(recorder, recipe, **options)

        def proved(subject, *rest):
            self.proofs.append(prove(subject, *rest))
            return self.proofs[-1]

        monkeypatch.setattr(Recorder, "record", recorded)
        monkeypatch.setattr(programs, "prove_program", proved)

    def export(self, model, *args, **options):
        with tried() as self.recipes:
            return hx.export(model, *args, **options)


@pytest.fixture
def counted(monkeypatch):
    return Counted(monkeypatch)


@pytest.fixture
def pyramid(counted):
    torch.manual_seed(0)
    program = counted.export(Pyramid().eval(), torch.rand(1, 3, 16, 12), dynamic=SIZES)
    return counted, program


def test_sizes_that_are_equal_wherever_they_fit_are_no_question_about_values(pyramid):
    counted, _ = pyramid
    assert not any("until" in recipe for recipe in counted.recipes)


def test_a_recording_that_is_like_that_of_a_wrong_file_is_not_proved(counted, monkeypatch):
    prove = programs.prove_program

    def wrong(*given):
        proof = prove(*given)
        proof.cases[0].problem = "made up"
        return proof

    def model(x):
        return x + 1 if torch.jit.is_tracing() or torch.compiler.is_exporting() else 1 + x * 2

    monkeypatch.setattr(programs, "prove_program", wrong)
    with pytest.raises(hx.VerificationError, match="made up"):
        counted.export(model, torch.rand(3, 4), dynamic={"x": {0: "b"}})
    told = [name for name in counted.recipes if name.startswith(("plain", "answers"))]
    assert len(told) == 3 and len(counted.proofs) == 2


def test_a_file_that_is_refused_near_the_recorded_sizes_is_not_tried_far_off(pyramid):
    counted, _ = pyramid
    first, last = counted.proofs[0], counted.proofs[-1]
    assert not first.ok and last.ok
    names = [check.name for check in first.cases]
    assert not any("values" in name for name in names)
    assert any("values" in check.name for check in last.cases)


def test_a_way_that_sizes_lead_along_is_recorded_once(pyramid):
    counted, program = pyramid
    ways = len(program._made.subject.members) + 1
    recorded = [n for (branches, *_), n in counted.merged.items() if branches]
    assert ways == 4 and sum(recorded) == ways


def test_the_model_is_listened_to_once_for_equal_inputs(pyramid):
    counted, _ = pyramid
    for (branches, padded, shape), times in counted.heard.items():
        if 1 in shape[2:]:
            continue  # the model refuses it
        assert times == 1, (branches, padded, shape)


def test_where_no_data_lead_the_model_a_size_is_tried_once_on_all_ways(pyramid):
    _, program = pyramid
    cases = program._made.subject.cases
    names = [case.name for case in cases]
    assert not any("repeated" in name for name in names)
    along = [tuple(c.feeds["x"].shape) for c in cases if "=" in c.name and "way" in c.name]
    usual = {
        tuple(case.feeds["x"].shape)
        for case in cases
        if "=" in case.name and "way" not in case.name and not case.beyond
    }
    assert len(along) == len(set(along)) and usual.isdisjoint(along)


def test_where_data_lead_the_model_sizes_are_tried_on_all_ways():
    def model(x):
        if x.max() > 1:
            return x * 2 if x.shape[0] >= 5 else x * 5
        return x + 1

    program = hx.export(model, torch.rand(3, 4), dynamic={"x": {0: "b"}})
    names = [case.name for case in program._made.subject.cases]
    assert any("b=" in name and "way" in name for name in names)


def test_converters_are_looked_up_once_for_a_recording(monkeypatch):
    asked, given = [], target_index.of
    monkeypatch.setattr(target_index, "of", lambda *args: asked.append(args) or given(*args))
    hx.export(torch.relu, torch.randn(3), verify=False)
    assert len(asked) == 1


def test_what_follows_from_draws_is_looked_for_once_in_a_file(monkeypatch):
    files, given = [], open_file.drawn
    monkeypatch.setattr(open_file, "drawn", lambda model: files.append(model) or given(model))
    proof = hx.export(torch.relu, torch.randn(3), dynamic={"input": {0: "n"}}).proof
    assert len(files) == 1 < len(proof.cases)

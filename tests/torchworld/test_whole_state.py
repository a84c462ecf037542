"""A guard that is entered again compares the model with what it was, and remembers nothing anew."""

import pytest
import torch
from model_changes import CHANGES, Counter, picture
from torch import nn

import hx
from hx.torchworld.state import shallow
from hx.torchworld.state.modelstate import preserved


def contents(model):
    return [t.clone() for t in (*model.state_dict().values(), model.cache["a"], model.plain)]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("what", CHANGES)
def test_what_a_model_does_to_itself_is_undone_each_time(what, training):
    change, buffers = CHANGES[what]
    model = Counter().train(training)
    before, were = picture(model), contents(model)
    guard = preserved(model)
    for _ in range(3):
        with guard:
            assert not any(m.training for m in model.modules())
        assert picture(model) == before
        with guard:
            change(model)
            inside = guard.changed_buffers
        assert inside == guard.changed_buffers == buffers
        assert type(model) is Counter
        assert picture(model) == before
        assert all(map(torch.equal, contents(model), were))


@pytest.mark.parametrize("what", [what for what in CHANGES if "NaN" not in what])
def test_what_somebody_does_between_two_runs_stays(what):
    change, _ = CHANGES[what]
    model, untouched = Counter(), Counter()
    guard = preserved(model)
    with guard:
        pass
    change(model)
    if isinstance(model, Counter):
        assert picture(model) != picture(untouched)
    after, held = picture(model), model._modules.copy()
    for _ in range(2):
        with guard:
            pass
        assert picture(model) == after
        assert model._modules == held


def test_a_write_that_is_announced_and_leaves_no_trace_is_undone_each_time():
    model = Counter()
    weight = model.inner[0].weight
    before = weight.detach().clone()
    guard = preserved(model)
    for _ in range(3):
        with guard:
            guard.before_write(weight.data)
            weight.data.add_(1)
            assert guard.changed_parameters == ["inner.0.weight"]
        assert torch.equal(weight, before)


def test_a_model_is_remembered_once_for_all_runs_of_its_proof(monkeypatch, tmp_path):
    remembered = []

    class Counted(shallow.Shallow):
        def __init__(self, module):
            remembered.append(module)
            super().__init__(module)

    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
    monkeypatch.setattr(shallow, "Shallow", Counted)
    program = hx.export(model, torch.randn(2, 4), tmp_path / "m.onnx", dynamic={"input": {0: "n"}})
    assert len(program.proof.cases) > 5
    assert remembered == [*model.modules()]

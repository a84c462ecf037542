"""Files that are compared with the model in a thread of their own, while the model runs."""

from __future__ import annotations

import _thread
import threading
import time

import pytest
import torch
from torch import nn

import hx
from hx.proof.comparing import Comparison
from hx.proof.file_proof import Case, prove
from hx.proof.sessions.open_file import OpenFile

X = torch.randn(2, 8)
DYNAMIC = {"x": {0: "batch"}}


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x).relu()


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = _thread._count()  # all threads of Python, also those that `threading` does not know
    yield
    for _ in range(100):
        if _thread._count() <= before:
            break
        time.sleep(0.02)
    assert _thread._count() <= before


def told(proof):
    return [
        (check.name, check.problem, [(o.problem, o.max_abs, o.rms_rel) for o in check.outputs])
        for check in proof.cases
    ]


@pytest.fixture
def exported(tmp_path):
    model = Scaled().eval()
    path = tmp_path / "m.onnx"
    program = hx.export(model, X, path, dynamic=DYNAMIC)
    cases = [Case(c.name, c.feeds, c.expected) for c in program._made.subject.cases]
    cases.append(Case("wrong", {"x": X}, [model(X).detach() + 1]))
    return path, cases


def test_results_are_those_of_all_cases_at_once(exported):
    path, cases = exported
    threads, stages, known = torch.get_num_threads(), [], threading.active_count()
    with Comparison(OpenFile(path)) as comparison:
        for case in cases:
            comparison.add(case)
        proof = comparison.finish(stages.append)
        assert threading.active_count() == known, "a model does not count it"
    assert told(proof) == told(prove(path, cases))
    assert not proof.ok and [check.ok for check in proof.cases] == [True] * (len(cases) - 1) + [
        False
    ]
    assert stages[-1] == f"comparing the file with the model, {len(cases)} of {len(cases)}"
    assert torch.get_num_threads() == threads


def test_further_threads_begin_with_the_threads_that_the_user_set(exported):
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        with Comparison(OpenFile(exported[0])):
            other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
            other.start()
            other.join()
    finally:
        torch.set_num_threads(before)
    assert seen == [2]


def test_an_error_in_the_thread_is_raised_where_its_results_are_awaited(exported):
    path, _ = exported
    with Comparison(OpenFile(path)) as comparison:
        comparison.add("no case")
        with pytest.raises(AttributeError):
            comparison.finish(lambda stage: None)


def test_an_interrupt_in_a_run_of_the_model_ends_the_thread(tmp_path):
    known = _thread._count()

    class Interrupted(Scaled):
        def forward(self, x):
            if _thread._count() > known:
                raise KeyboardInterrupt
            return super().forward(x)

    with pytest.raises(KeyboardInterrupt):
        hx.export(Interrupted(), X, tmp_path / "m.onnx", dynamic=DYNAMIC)
    assert not [*tmp_path.iterdir()]


def test_an_error_for_the_user_ends_the_thread():
    class Few(Scaled):
        def forward(self, x):
            if x.shape[0] == 5:
                raise ValueError("too many")
            return super().forward(x)

    with pytest.raises(hx.UsageError, match="refuses"):
        hx.export(Few(), X, dynamic=DYNAMIC, others=[(torch.randn(5, 8),)])


def test_the_random_state_is_put_back_beside_the_thread():
    class Draws(nn.Module):
        def forward(self, x):
            return x * 2 if len(x) != 3 else x * 2 + 0 * torch.rand(3, 1)

    state = torch.get_rng_state()
    hx.export(Draws(), X, dynamic=DYNAMIC)
    assert torch.equal(state, torch.get_rng_state())

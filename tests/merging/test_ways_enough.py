"""A model that asks of each step how far it is off: not all of its ways are tried, however few fit."""

import pytest
import torch

import hx
from hx.budget import BUDGET
from hx.errors import Unsupported
from hx.recording.recorder import Recorder, _RecordingLimit


def steps(x):
    for _ in range(12):
        for _ in range(10):
            x = x + 0.001 * torch.sin(x)
        if x.sum() > 0:
            x = x - 0.3
        else:
            x = x + 0.2
    return x


def test_other_answers_are_heard_up_to_a_number_of_nodes(monkeypatch, tmp_path, limit):
    limit(BUDGET.nodes, branches=BUDGET.nodes.branches // 5)
    recorded = []

    def record(recorder, recipe, **options):
        found = given(recorder, recipe, **options)
        if recipe.forced:
            recorded.append(len(found.nodes))
        return found

    given = Recorder.record
    monkeypatch.setattr(Recorder, "record", record)
    x, runs = torch.linspace(-1, 1.2, 6).reshape(2, 3), []
    for name in ("one", "other"):
        try:
            hx.export(steps, x, tmp_path / f"{name}.onnx", verify=True)
        except hx.HxError as e:
            (tmp_path / f"{name}.onnx").write_text(str(e))
        runs.append([*recorded])
        recorded.clear()
    assert runs[0] == runs[1]
    enough = max(BUDGET.nodes.branches, BUDGET.nodes.branches_factor * max(runs[0]))
    assert 0 < sum(runs[0][:-1]) <= enough
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()


def test_a_recording_with_other_answers_asks_a_few_hundred_questions():
    for nodes, asked in ((64, 64), (1000, 256), (80_000, 10_000)):
        limit = _RecordingLimit(nodes, None)
        for _ in range(asked):
            limit.question()
        with pytest.raises(Unsupported, match="asks many times as many questions"):
            limit.question()

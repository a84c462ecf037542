"""A size that the model treats specially is changed before anything is proved."""

from __future__ import annotations

import onnxruntime
import pytest
import torch
from tests.shared import recipes_tried

import hx

AT_ONCE = ["plain: offers sizes", "informative plain: right"]


def exported(model, *args, **options):
    with recipes_tried.tried() as found:
        program = hx.export(model, args, **options)
    return program, found


def recorded(program):
    return dict(program._trace.recipe.inputs)


def asks_for_one(x):
    return x.sum(0, keepdim=True) + x if x.shape[0] != 1 else 2 * x


ONE = torch.tensor([[1.0, 2.0, 3.0]])


def test_a_batch_of_one_is_recorded_twice_and_proved_as_given():
    program, found = exported(asks_for_one, ONE, input_names=["x"], dynamic={"x": {0: "batch"}})
    assert found == AT_ONCE
    assert recorded(program)["x"].equal(torch.cat([ONE, ONE]))
    cases = {case.name: case for case in program._subject.cases}
    assert cases["given"].feeds["x"] is ONE and not program.report.promised
    assert "recorded at batch=2 instead of 1" in str(program.report.messages)
    assert program.report.file.sizes == {"batch": 1}


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_the_file_is_right_for_the_given_and_other_sizes(rows, tmp_path):
    path = tmp_path / "m.onnx"
    exported(asks_for_one, ONE, path=path, input_names=["x"], dynamic={"x": {0: "batch"}})
    x = torch.randn(rows, 3)
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), asks_for_one(x))


def test_sizes_of_one_name_change_together():
    def both(x, y):
        return asks_for_one(x) * y

    axes = {"x": {0: "n"}, "y": {0: "n"}}
    program, found = exported(both, ONE, 2 * ONE, input_names=["x", "y"], dynamic=axes)
    assert found == AT_ONCE
    assert [len(tensor) for tensor in recorded(program).values()] == [2, 2]


def test_one_of_two_equal_sizes_changes_and_keeps_its_power_of_two():
    def compares(x, y):
        pooled = y[: x.shape[0]] if x.shape[0] != y.shape[0] else y
        return x.sum() + pooled.sum() * 0 + y.sum()

    x, y = torch.randn(4, 2), torch.randn(4, 2)
    program, found = exported(
        compares, x, y, input_names=["x", "y"], dynamic={"x": {0: "n"}, "y": {0: "m"}}
    )
    assert found == AT_ONCE
    assert recorded(program)["x"] is x or recorded(program)["x"].equal(x)
    assert recorded(program)["y"].equal(y.repeat(3, 1))


def test_a_size_that_equals_a_constant_of_the_model_changes():
    def resized(x):
        grid = torch.arange(16.0)
        if x.shape[0] != 16:
            grid = torch.arange(x.shape[0]) * 1.0
        return x + grid

    program, found = exported(resized, torch.randn(16), input_names=["x"], dynamic={"x": {0: "n"}})
    assert found == AT_ONCE and len(recorded(program)["x"]) == 48


@pytest.mark.parametrize("size", ["n<=1", "n%8"])
def test_limits_of_the_user_keep_a_size(size):
    n = 8 if "%" in size else 1
    options = {"input_names": ["x"], "dynamic": {"x": {0: size}}}
    program, found = exported(asks_for_one, torch.randn(n, 3), **options)
    assert found[0] == "plain: right" and len(recorded(program)["x"]) == n


def test_nothing_changes_without_a_proof():
    options = {"input_names": ["x"], "dynamic": {"x": {0: "n"}}, "verify": False}
    program, found = exported(asks_for_one, ONE, **options)
    assert found == ["plain: right"] and recorded(program)["x"] is ONE


def test_nothing_changes_if_the_model_does_not_ask():
    options = {"input_names": ["x"], "dynamic": {"x": {0: "n"}}}
    program, found = exported(torch.relu, ONE, **options)
    assert found == ["plain: right"] and recorded(program)["x"] is ONE


def test_the_given_inputs_are_recorded_at_once_if_the_model_raises():
    def only_one(x):
        if x.shape[0] > 1:
            raise ValueError("one row, please")
        return x + 1

    options = {"input_names": ["x"], "dynamic": {"x": {0: "n"}}}
    program, found = exported(only_one, ONE, **options)
    assert found == [
        "plain: offers sizes",
        "informative plain: model raised ValueError",
        "plain: right",
    ]
    assert recorded(program)["x"] is ONE and "instead of" not in str(program.report.messages)


def test_lengths_of_parts_still_make_up_the_whole():
    def split(x, lengths):
        parts = torch.repeat_interleave(torch.arange(lengths.shape[0]), lengths)
        pooled = torch.zeros(lengths.shape[0], x.shape[1]).index_add(0, parts, x)
        return pooled[:-1] if lengths.shape[0] != 4 else pooled.narrow(0, 0, 3)

    x, lengths = torch.randn(9, 2), torch.tensor([2, 3, 1, 3])
    axes = {"x": {0: "n"}, "lengths": {0: "parts"}}
    program, found = exported(split, x, lengths, input_names=["x", "lengths"], dynamic=axes)
    assert found[0] == "plain: offers sizes"
    recording = recorded(program)
    assert len(recording["lengths"]) in (4, 12) and int(recording["lengths"].sum()) == 9


def test_a_model_with_two_ways_is_searched_at_the_given_sizes():
    def ways(x):
        return x.cumsum(0) if x.shape[0] == 1 else x.sort(0).values * x.flip(0)

    def two_ways(x):
        return ways(x) if x.shape[0] != 1 else -x

    options = {"input_names": ["x"], "dynamic": {"x": {0: "n"}}}
    program, found = exported(two_ways, ONE, **options)
    assert found[:3] == ["plain: offers sizes", "informative plain: wrong", "plain: wrong"]
    assert not program.report.promised

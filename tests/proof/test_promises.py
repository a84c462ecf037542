"""The suite of promises on a few models, and on one that is silently wrong; see tests/suites."""

from __future__ import annotations

import collections
import dataclasses
import importlib
from pathlib import Path

import pytest
import torch

import hx

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def suite():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("tests.suites.promise.judge")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sizes/padded_to_multiple", "right"),
        ("masks/masked_rows", "right"),
        ("attention/causal_and_padding", "right"),
        ("state/counter_in_closure", "right"),
        ("containers/named_tuple_given", "right"),
        ("attention/PositionTable", "right"),
        ("randomness/noise_beside", "right"),
    ],
)
def test_verdicts(suite, name, kind):
    result = suite.measure(name)
    assert result["kind"] == kind, result["detail"]
    assert result["tried"] > 20 and not result["runtime"]


def other_far_away(x):
    return x.sum(0) / len(x) + (len(x) > 200)


def other_of_negative_values(x):
    return x.sum(0) / len(x) + x.max().clamp(max=0)


def stops_at_seven(x):
    assert len(x) != 7
    return x.sum(0) / len(x)


@pytest.mark.parametrize(
    ("other", "kind"),
    [(other_far_away, "silent"), (other_of_negative_values, "silent"), (stops_at_seven, "right")],
)
def test_a_file_that_is_not_the_models_is_called_silent(suite, tmp_path, other, kind):
    """The file is of one model, and is compared with another that differs in a few places."""
    listed = suite.named("sizes/length_as_divisor")
    path = tmp_path / "m.onnx"
    program = suite.exported(listed, path)
    assert suite.judged(listed, program, path).kind == "right"
    planted = dataclasses.replace(listed, make=lambda: other)
    assert suite.judged(planted, program, path).kind == kind


def test_the_models_are_enough():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        listing = importlib.import_module("tests.suites.promise.listing")
        counts = collections.Counter(name.partition("/")[0] for name in listing.names())
    assert len(counts) >= 18 and min(counts.values()) >= 25 and counts.total() >= 500


def _squeezed(x):
    return x.squeeze(0) * 2


def _added_or_averaged(x):
    return x.sum(0) if x.shape[0] > 2 else x


@pytest.mark.parametrize(
    "model, recorded, promised",
    [
        (_squeezed, (3, 4), "n>=2"),  # half of 3 is 1
        (_squeezed, (2, 4), "n>=2"),
        (lambda x: x.squeeze().sum(-1), (3, 4), "n>=2"),
        (_added_or_averaged, (5, 4), "n>=3"),  # it has another rank at small sizes
    ],
)
def test_small_sizes_that_are_another_case_are_left_out(model, recorded, promised, tmp_path):
    x = torch.randn(*recorded)
    program = hx.export(model, (x,), tmp_path / "m.onnx", dynamic=[{0: "n"}])
    assert program.report.promised == {"n": promised}

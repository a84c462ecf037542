"""The suite of planted mistakes on two models, with a few mistakes; see tests/suites/planted."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def suite():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("tests.suites.planted.judge")


@pytest.mark.parametrize(
    ("model", "kinds"),
    [("split_and_gated", ["order", "first"]), ("grows_with_rows", ["size"])],
)
def test_mistakes_are_planted_and_found(suite, model, kinds):
    result = suite.measure(model, kinds, 1)
    assert result["export"] == "ok" and not result["promised"]
    verdicts = [row["verdict"] for row in result["mistakes"]]
    assert verdicts.count("found") == len(kinds)
    assert set(verdicts) <= {"found", "no difference", "does not run"}
    for row in result["mistakes"]:  # each alone, as the command for a missed one repeats it
        alone = suite.measure(model, [row["kind"]], 1, row["mistake"])["mistakes"]
        assert [(each["mistake"], each["verdict"]) for each in alone] == [
            (row["mistake"], row["verdict"])
        ]


def test_every_kind_has_mistakes_and_each_its_name(suite, tmp_path):
    correct = suite.Correct.of("causal_attention", suite.listed("causal_attention"), tmp_path)
    assert not correct.probes.apart
    for kind, make in suite.KINDS.items():
        names = [each.name for each in make(correct.file, correct.seen)]
        assert len(set(names)) == len(names), kind
        assert names, kind


def test_the_models_are_enough(suite):
    listed = importlib.import_module("tests.suites.planted.real_models")
    names = listed.names()
    assert sum("/" not in name for name in names) >= 60
    assert sum("/" in name for name in names) >= 12

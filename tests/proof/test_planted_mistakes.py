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


# Each shows with few inputs: the last row of a table, numbers near 0, one large number among small
# ones, large values along one way, equal elements beside a sorted key, numbers that few elements
# rarely hold, two sizes together, ties that a second input names, counts of many rows, values in a
# loop that is cheap at its smallest sizes alone.
@pytest.mark.parametrize(
    ("model", "kind", "mistake"),
    [
        ("table_of_events", "slight", "color.weight axis 0 [0] is 0"),
        ("turned_by_places", "range", "Gather.out whole"),
        ("searched", "range", "Concat.out small"),
        ("several_norms", "bound", "two/InstanceNormalization.out Min 6"),
        ("turned_by_the_mean", "bound", "output Max -40"),
        ("as_often_as_said", "bound", "output Min 6"),
        ("sorted_and_back", "range", "output_0 equal to 0"),
        ("sparse_softmax", "lone", "Add_1.out axis 0 third x1.01"),
        ("filled_by_masks", "whole", "Gather_1.out Min 300"),
        ("accuracy", "attribute", "ArgMax@0 select_last_index=1"),
        ("histogram", "whole", "output_0 Min 300"),
        ("best_path", "range", "ReduceMax_2.out negative"),
    ],
)
def test_mistakes_that_show_with_few_inputs_are_found(suite, model, kind, mistake):
    (row,) = suite.measure(model, [kind], 1, mistake)["mistakes"]
    assert row["verdict"] == "found"


def test_every_kind_has_mistakes_and_each_its_name(suite, tmp_path):
    missing = {*suite.KINDS}
    for model in ("causal_attention", "quantized_by_hand", "ways_in_ways", "table_of_events"):
        correct = suite.Correct.of(model, suite.listed(model), tmp_path)
        assert not correct.probes.apart
        for kind, make in suite.KINDS.items():
            names = [each.name for each in make(correct.file, correct.seen)]
            assert len(set(names)) == len(names), kind
            missing -= {kind} if names else set()
    assert not missing


def test_the_models_are_enough(suite):
    listed = importlib.import_module("tests.suites.planted.real_models")
    names = listed.names()
    assert sum("/" not in name for name in names) >= 120
    assert sum("/" in name for name in names) >= 18

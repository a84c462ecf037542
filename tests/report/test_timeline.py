"""All of the time of an export: each strategy with its cost and outcome, and the rest by name."""

from __future__ import annotations

import json
import re
import time

import pytest
import torch
from torch import nn

import hx
from hx.page.strategy_table import OUTSIDE

HERE = __file__.rpartition("/")[2]


def line_of(function):
    """The line of the function's question, which is its first."""
    return function.__code__.co_firstlineno + 1


class Odd(nn.Module):
    """One branch on a size, which a recording at even sizes knows nothing of."""

    def forward(self, x):
        if x.shape[1] % 2:
            return torch.cat([x, x[:, :1] * 2], dim=1)[:, 1:]
        return x - 1


class Either(nn.Module):
    """Both ways of a branch on values, which have other ranks: no graph has both."""

    def forward(self, x):
        if x.sum() > 0:
            return x.sum(1)
        return x


def timed(model, *args, **options):
    """The report of an export or of its error, and the seconds by a clock beside it."""
    export = hx.export  # imported at its first use, which is no part of a call
    start = time.perf_counter()
    try:
        report = export(model, args, **options).report
    except hx.HxError as error:
        report = error.report
    return report, time.perf_counter() - start


@pytest.fixture(scope="module")
def odd():
    return timed(Odd(), torch.randn(2, 6), dynamic={"x": {1: "n"}})


@pytest.fixture(scope="module")
def either():
    return timed(Either(), torch.rand(2, 6))


def told(report):
    return [(each.name, each.outcome) for each in report.strategies]


def test_an_export_lists_its_strategies_in_order_with_their_outcomes(odd):
    report, _ = odd
    branch = f"both ways of the branch at {HERE}:{line_of(Odd.forward)}, on inputs that were wrong"
    no_graph = "refused: the ways that the model goes do not become one graph"
    assert told(report) == [
        ("plain recording", "wrong at n=7"),
        ("plain recording, as if no size fitted", "wrong on recorded inputs"),
        (f"{branch}, as if no size fitted", no_graph),
        ("plain recording, at other sizes", "wrong on given inputs"),
        (f"{branch}, at other sizes", "right"),
    ]
    assert report.state == "verified"
    # A file that was written was proved; what was refused came to neither.
    for each in report.strategies:
        refused = each.outcome.startswith("refused")
        assert each.recording > 0
        assert (each.writing == 0 and each.proof == 0) is refused


def test_an_export_that_fails_lists_them_too(either):
    report, _ = either
    at = f"{HERE}:{line_of(Either.forward)}"
    assert report.state == "wrong"
    assert told(report)[0] == (
        "plain recording",
        "needs another recording: the model asks about values",
    )
    assert f"both ways of the branch at {at}" in [each.name for each in report.strategies]
    assert ("plain recording, nothing merged", "wrong on opposite inputs") in told(report)
    assert "right" not in [each.outcome for each in report.strategies]
    assert report.timings["explain"] > 0


def test_an_error_of_a_recording_has_a_report_of_the_time():
    class Sorted(nn.Module):
        def forward(self, x):
            return torch.linalg.eig(x)[0].real

    report, _ = timed(Sorted(), torch.ones(3, 3))
    assert [name for name, _ in told(report)] == ["plain recording"]
    assert report.strategies[0].outcome == "refused: 1 target has no converter"

    class Unsure(nn.Module):
        def forward(self, x):
            return x.new_zeros(x.shape, layout=torch.sparse_coo) + x

    report, _ = timed(Unsure(), torch.ones(3, 3))
    assert report.strategies[0].outcome.startswith("refused: ")
    assert report.name == "Unsure" and report.timings["total"] > 0


@pytest.mark.parametrize("which", ["odd", "either", "plain"])
def test_strategies_and_the_rest_add_up_to_the_whole(which, request):
    """Each moment counts for one stage, so this holds however fast the machine is."""
    if which == "plain":
        report, seconds = timed(nn.Linear(3, 2), torch.ones(2, 3))
    else:
        report, seconds = request.getfixturevalue(which)
    total = report.timings["total"]
    parts = sum(took for name, took in report.timings.items() if name != "total")
    assert parts == pytest.approx(total, rel=1e-6)
    outside = sum(report.timings.get(name, 0.0) for name in OUTSIDE)
    inside = sum(each.seconds for each in report.strategies)
    assert inside + outside == pytest.approx(total, rel=1e-6)
    # The timeline begins and ends with the call, but for what the call puts back behind it.
    assert total <= seconds
    assert seconds - total < 0.05 * seconds + 0.1


def test_the_time_line_names_parts_that_add_up(odd):
    report, _ = odd
    [line] = [each for each in str(report).splitlines() if each.startswith("time")]
    total, parts = re.fullmatch(r"time +([\d.]+) s \((.*)\), 5 strategies", line).groups()
    shown = [float(part.rpartition(" ")[2]) for part in parts.split(", ")]
    assert sum(shown) == pytest.approx(float(total), abs=0.021)


def test_one_strategy_is_not_counted_and_has_no_table():
    shown = str(hx.export(nn.Linear(3, 2), torch.ones(2, 3)).report)
    assert re.search(r"^time +[\d.]+ s", shown, re.M)
    assert "strateg" not in shown.lower()


def test_the_table_fits_a_terminal(odd, either):
    for report, _ in (odd, either):
        shown = str(report).splitlines()
        start = next(i for i, line in enumerate(shown) if line.startswith("STRATEGY"))
        end = next(i for i, line in enumerate(shown) if line.startswith("total"))
        table = shown[start : end + 1]
        assert max(map(len, table)) <= 80
        heads = ["STRATEGY", "SECONDS", "RECORD", "WRITE", "PROOF", "OUTCOME"]
        assert table[0].split() == heads
        assert table[-1].split() == ["total", f"{report.timings['total']:.2f}"]
        column = table[0].index("SECONDS"), table[0].index("SECONDS") + len("SECONDS")
        words = " ".join(line[: column[0]].strip() for line in table)
        for each in report.strategies:
            assert each.name in words


def test_data_and_pages_have_the_strategies(odd, tmp_path):
    report, _ = odd
    found = json.loads(report.to_json())
    assert [each["name"] for each in found["strategies"]] == [s.name for s in report.strategies]
    first = found["strategies"][0]
    assert list(first) == ["name", "seconds", "recording", "writing", "proof", "outcome"]
    parts = first["recording"] + first["writing"] + first["proof"]
    assert first["seconds"] == pytest.approx(parts, abs=1e-5)
    report.to_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    details = page[page.index("<h2>Time</h2>") :]
    details = details[: details.index("</details>")]
    assert "5 strategies in " in details and "<details>" in details
    for words in ("plain recording, at other sizes", "wrong at n=7", "choice of the strategies"):
        assert words in details and words in report.to_markdown()


def test_the_progress_names_the_strategy_from_the_second_one_on():
    seen = []
    timed(Odd(), torch.randn(2, 6), dynamic={"x": {1: "n"}}, progress=seen.append)
    assert seen[:4] == [
        "recording the model",
        "assembling the graph",
        "writing the file",
        "running the model on other inputs",
    ]
    assert "recording the model, strategy 2: plain recording, as if no size fitted" in seen
    recorded = [each for each in seen if each.startswith("recording the model")]
    assert len(recorded) == 5
    assert all(f"strategy {i}: " in each for i, each in enumerate(recorded[1:], 2))
    compared = [each for each in seen if each.startswith("comparing the file")]
    assert re.fullmatch(r"comparing the file with the model, 1 of \d+", compared[0])
    assert compared[-1].endswith(", at other sizes")


def test_the_same_strategy_again_says_so():
    from hx.report.timeline import Timeline

    seen = []
    timeline = Timeline(seen.append)
    for _ in range(2):
        timeline.begin("plain recording")
        timeline.end("wrong at n=4")
    assert [each.name for each in timeline.strategies] == [
        "plain recording",
        "plain recording, again",
    ]
    assert seen == [
        "recording the model",
        "recording the model, strategy 2: plain recording, again",
    ]


def test_without_a_proof_the_outcome_says_so():
    report = hx.export(nn.Linear(3, 2), torch.ones(2, 3), verify=False).report
    [only] = report.strategies
    assert (only.name, only.outcome, only.proof) == ("plain recording", "not verified", 0)

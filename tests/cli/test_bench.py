"""`hx bench`: every side is a row, with figures or with a reason; data for programs."""

from __future__ import annotations

import pytest
import torch

from hx.bench import side_by_side
from hx.bench.comparison_job import Job

MORE = """
import os
import time


class Kills(nn.Module):
    def forward(self, x):
        if torch._C._get_tracing_state():
            os.abort()
        return x * 2


class Sleeps(nn.Module):
    def forward(self, x):
        if torch._C._get_tracing_state():
            time.sleep(600)
        return x * 2


class Big(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1000, 4000)

    def forward(self, x):
        return self.linear(x)


class Refuses(nn.Module):
    def forward(self, x):
        if torch._C._get_tracing_state():
            raise ValueError("the tracer is not welcome")
        return x.relu()


def sleeps(): return Sleeps(), (torch.ones(3),)
def kills(): return Kills(), (torch.ones(3),)
def big(): return Big(), (torch.ones(2, 1000),)
def refuses(): return Refuses(), (torch.ones(3),)
"""


@pytest.fixture
def more(folder):
    with (folder / "models.py").open("a") as file:
        file.write(MORE)
    return folder


def by_side(done):
    return {row["side"]: row for row in done.json["sides"]}


@pytest.mark.long
def test_each_side_has_its_figures(hx):
    words = ("models.py:line", "-i", "x=float32[batch,4]", "--rounds", "2", "--threads", "1")
    done = hx("bench", *words, "--json")
    rows = by_side(done)
    assert done.code == 0 and done.json["schema"] == 1 and done.json["command"] == "bench"
    assert list(rows) == ["floor", "hx", "dynamo", "torchscript"]
    ours, script = rows["hx"], rows["torchscript"]
    for row in (rows["floor"], ours, script):
        assert not row["failed"] and len(row["rounds"]) == 2
        assert row["seconds"] == pytest.approx(sum(row["rounds"]) / 2) and row["memory"] >= 0
    # The parts are what the export did, one after the other: never more than the whole.
    assert set(ours["parts"]) == {"recording", "assembly", "passes", "save"}
    assert 0 < sum(ours["parts"].values()) < max(ours["rounds"]) * 1.1
    assert ours["proof"] > 0 and not ours["proof_failed"]
    # A whole process also imports and loads; hx's proves the file, too.
    assert ours["process"] > ours["first"]
    assert script["process"] > script["first"] and rows["floor"]["process"] > 0
    assert ours["operators"] == {"Gemm": 1, "Relu": 1} and ours["nodes"] == 2
    weights = (4 * 3 + 3) * 4
    assert rows["floor"]["size"] == weights and ours["size"] > weights
    for row in (ours, script):
        assert row["latency"] > 0 and row["error"] < 1e-6 and not row["wrong"]
    assert ours["latency_of_hx"] == 1
    dynamo = rows["dynamo"]  # needs a package that hx does not bring
    assert dynamo["nodes"] or "onnxscript is not installed" in dynamo["failed"]


def test_a_table_for_people_in_which_a_rival_that_fails_says_why(hx, more, warm_workers):
    done = hx("bench", "models.py:refuses", "--rounds", "1", "--against", "torchscript")
    head, floor, ours, between, below, *processes = done.out.splitlines()
    assert done.code == 0
    assert head.split() == "SIDE EXPORT BY HX MEMORY NODES FILE LATENCY BY HX ERROR".split()
    assert floor.startswith("floor") and "x" in floor and ours.startswith("hx")
    assert between == "" and below.split() == "SIDE PROCESS BY HX DOES".split()
    assert [line.split()[0] for line in processes] == ["floor", "hx"]
    assert processes[1].endswith("prove") and all(len(line) <= 80 for line in processes)
    assert "torchscript: ValueError: the tracer is not welcome" in done.err
    assert "hx: recording" in done.err and "proof apart" in done.err


def test_a_rival_that_dies_says_how(hx, more, warm_workers):
    done = hx("bench", "models.py:kills", "--rounds", "1", "--against", "torchscript", "--json")
    rows = by_side(done)
    assert done.code == 0 and rows["hx"]["nodes"] == 1
    assert "SIGABRT" in rows["torchscript"]["failed"]


def test_a_rival_that_takes_too_long_is_ended(hx, more, warm_workers):
    words = ("models.py:sleeps", "--against", "torchscript", "--rounds", "1", "--limit", "5")
    done = hx("bench", *words, "--json")
    row = by_side(done)["torchscript"]
    assert done.code == 0 and row["beyond"] == 5 and row["failed"] == "not through after 5 s"
    assert by_side(done)["hx"]["seconds"] < 5


def test_what_hx_itself_cannot_do_is_the_exit_code(hx, warm_workers):
    done = hx("bench", "models.py:unknown", "--rounds", "1", "--against", "none")
    assert done.code == 5 and "linalg.eig" in done.err and done.out.splitlines()[1][:5] == "floor"
    done = hx("bench", "models.py:wrong", "--rounds", "1", "--against", "none")
    assert done.code == 4 and "proof:" in done.err


def test_a_model_that_cannot_be_had_is_no_row(hx, warm_workers):
    done = hx("bench", "models.py:nothing", "--against", "none")
    assert done.code == 2 and "has no 'nothing'" in done.err and not done.out
    done = hx("bench", "models.py:broken", "--against", "none")
    assert done.code == 1 and "not in the mood" in done.err
    done = hx("bench", "models.py:line", "--against", "tensorrt")
    assert done.code == 2 and "tensorrt" in done.err and "torchscript" in done.err
    done = hx("bench", "models.py:line", "--against", "none,dynamo")
    assert done.code == 2 and "--against none goes alone" in done.err


def test_memory_is_what_the_call_took():
    from hx.bench.memory import peak

    kept = torch.ones(30_000_000 // 4)
    assert peak(lambda: None) < 2e6
    # Linux counts the pages of a thread in batches of 64: it may be 256 KiB behind, with what it
    # gave back before the call as well as with what it took in it.
    assert 30e6 - (512 << 10) <= peak(lambda: kept + 1) < 35e6
    assert peak(lambda: None) < 2e6  # an earlier peak does not count again


def test_a_copy_of_the_weights_would_show(more, tmp_path):
    rows = [side_by_side.Row("floor"), side_by_side.Row("hx")]
    run = side_by_side._Run(Job("models.py:big"), rows, tmp_path / "run", 0.0, lambda stage: None)
    run.weigh()
    floor, ours = rows
    weights = (1000 * 4000 + 4000) * 4
    assert not floor.failed and not ours.failed
    assert ours.memory - floor.memory < weights / 2


def test_errors_and_other_outputs_are_told():
    from hx.bench.latency import difference

    one = torch.tensor([1.0, -4.0])
    assert difference([one], [one]) == {"error": 0.0, "share": 0.0}
    assert difference([one + 1], [one]) == {"error": 1.0, "share": 0.25}
    nan, inf = torch.tensor([float("nan")]), torch.tensor([float("inf")])
    assert difference([nan], [nan])["error"] == 0 and difference([inf], [inf])["error"] == 0
    assert difference([nan], [inf])["error"] == float("inf")
    assert "2 outputs, the model 1" in difference([one, one], [one])["mismatch"]
    assert "[2], the model [1, 2]" in difference([one], [one[None]])["mismatch"]

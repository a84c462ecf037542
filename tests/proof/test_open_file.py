"""A file that is compared several times is loaded once in each mode."""

import dataclasses

import pytest
import torch
from torch import nn

import hx
from hx.budget import BUDGET
from hx.proof.file_proof import Case, blame, prove
from hx.proof.sessions import open_file
from hx.proof.sessions.open_file import OpenFile
from hx.runtime import Session


@pytest.fixture
def loads(monkeypatch):
    found = []

    class Counted(Session):
        def __init__(self, source, **options):
            found.append(options["optimized"])
            super().__init__(source, **options)

    monkeypatch.setattr(open_file, "Session", Counted)
    return found


def cases(tmp_path):
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    hx.export(model, x, tmp_path / "m.onnx", verify=False)
    expected = model(x).detach()
    right = Case("recorded", {"input": x}, [expected])
    return tmp_path / "m.onnx", right, dataclasses.replace(right, expected=[expected + 1])


def test_each_mode_is_loaded_once(loads, tmp_path):
    path, right, wrong = cases(tmp_path)
    file = OpenFile(path)
    for _ in range(2):
        assert prove(file, [right]).ok
        assert not prove(file, [wrong, wrong], checker=False).ok
    assert loads == [True, False]  # a wrong case is run without optimisations as well
    assert file.depth == prove(path, [right]).depth


def test_optimisations_are_blamed_only_where_asked(loads, tmp_path):
    path, _, wrong = cases(tmp_path)
    file = OpenFile(path)
    (check,) = prove(file, [wrong], checker=False, blames=False).cases
    assert loads == [True]
    blame(file, wrong, check)
    assert loads == [True, False] and not check.note


def test_sessions_of_heavy_files_are_not_kept(loads, tmp_path, monkeypatch):
    path, right, _ = cases(tmp_path)
    none = dataclasses.replace(BUDGET.bytes, light_weights=0)
    monkeypatch.setattr(open_file, "BUDGET", dataclasses.replace(BUDGET, bytes=none))
    file = OpenFile(path)
    for _ in range(2):
        assert prove(file, [right]).ok
    assert loads == [True, True]


def test_the_proof_of_an_export_loads_its_file_once(loads):
    program = hx.export(nn.Linear(3, 2), torch.randn(4, 3), dynamic={"input": {0: "n"}})
    assert program.proof.ok and loads == [True]

"""Functions of math that a helper of the model has under a name of its own: `from math import log2`."""

from __future__ import annotations

import importlib
import math
import sys

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hx

HELPERS = """
import functools
from math import log2, sin, sqrt as root

def scale(n):
    return 1 / root(n)

def depth(n):
    return log2(n + 1)

def wave(n):
    return sin(n / 7)

def around(function):
    def inner(n):
        return function(n) + 1
    return inner

closed = around(log2)
TABLE = {"log2": log2}

def by_table(n):
    return TABLE["log2"](n)

class Static:
    log = log2

def of_class(n):
    return Static.log(n)
"""


@pytest.fixture
def helpers(tmp_path, monkeypatch):
    (tmp_path / "helpers_of_math.py").write_text(HELPERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("helpers_of_math")
    del sys.modules["helpers_of_math"]


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return x * self.function(x.shape[1])


NAMES = ["scale", "depth", "wave", "closed", "by_table", "of_class"]


@pytest.mark.parametrize("name", NAMES)
def test_a_size_stays_in_the_graph(helpers, name):
    before = dict(vars(helpers))
    model = Model(getattr(helpers, name))
    program = hx.export(model, torch.randn(2, 5), dynamic={"x": {1: "n"}})
    assert not program.report.escapes and not program.report.notes
    for n in (1, 2, 3, 11, 40):
        x = torch.randn(2, n)
        assert_close(program.run(x), model(x))
    assert dict(vars(helpers)) == before and helpers.TABLE["log2"] is math.log2
    assert helpers.closed.__closure__[0].cell_contents is math.log2
    assert helpers.Static.log is math.log2


def test_a_function_that_the_model_has_itself():
    program = hx.export(Model(math.log2), torch.randn(2, 5), dynamic={"x": {1: "n"}})
    assert not program.report.escapes
    assert_close(program.run(torch.ones(2, 8)), torch.full((2, 8), 3.0))

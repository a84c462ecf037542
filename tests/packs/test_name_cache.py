"""What names mean is worked out once, and again as soon as one of them means something else."""

import sys
import types

import pytest
import torch
from torch import nn

import hx
from hx.errors import TargetError
from hx.packs.name_cache import NameCache
from hx.packs.targets import resolve


def of(*texts):
    found = {}
    for text in texts:
        try:
            found[text] = resolve(text)
        except TargetError:
            found[text] = None
    return NameCache(found)


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("lately")
    exec("def f(x): return x + 1\nclass C:\n    def m(self, x): return x\n", vars(made))
    monkeypatch.setitem(sys.modules, "lately", made)
    return made


EVERY = ["torch.relu", "torch.Tensor.add", "torch.ops.aten.mish", "torch.Tensor.mH.__get__",
         "lately.f", "lately.C.m", "lately.nothing", "not_installed.f"]  # fmt: skip


def test_nothing_has_changed(module):
    assert of(*EVERY).holds()


def replace_function(module):
    module.f = lambda x: x


def replace_method(module):
    module.C.m = lambda self, x: x


def replace_class(module):
    module.C = type("C", (), {"m": module.C.m})


def replace_module(module):
    sys.modules["lately"] = types.ModuleType("lately")
    vars(sys.modules["lately"]).update(vars(module), C=type("C", (), {"m": module.C.m}))


def remove(module):
    del module.f


def define(module):
    module.nothing = lambda x: x


CHANGES = [replace_function, replace_method, replace_class, replace_module, remove, define]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_one_that_has_changed(module, change):
    standing = of(*EVERY)
    change(module)
    assert not standing.holds()
    assert of(*EVERY).holds()


class Calls(nn.Module):
    def forward(self, x):
        return sys.modules["lately"].f(x)


def test_exports_between_which_a_converted_function_comes_and_changes(monkeypatch):
    @hx.converter("lately.f")
    def f(op, x):
        return op.Mul(x, 3.0)

    packs = hx.Registry.installed()
    packs.add(f)
    x = torch.randn(2)

    def ops(model):
        program = hx.export(model, x, packs=packs, verify=False)
        return [node.op_type for node in program.parts.nodes]

    assert ops(nn.ReLU()) == ["Relu"]  # lately does not exist
    made = types.ModuleType("lately")
    exec("def f(x): return x * 3", vars(made))
    monkeypatch.setitem(sys.modules, "lately", made)
    assert ops(Calls()) == ["Mul"] == ops(Calls())
    exec("def f(x): return 3 * x", vars(made))
    assert ops(Calls()) == ["Mul"]

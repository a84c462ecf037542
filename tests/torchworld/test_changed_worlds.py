"""Worlds that somebody else has already changed: patches, modes, devices, settings, threads.

After the export each is as it was, with whatever the other one put there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
import unittest.mock as mock
import warnings

import pytest
import torch
import torch.nn.functional as F
from odd import Base, Passes, looked_at, nothing, of
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import hx


class PassesOperators(TorchDispatchMode):
    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


linear, call, call_impl = F.linear, nn.Module.__call__, nn.Module._call_impl
linear_forward = nn.Linear.forward
PATCHES = {
    "Linear.forward": lambda: mock.patch.object(
        nn.Linear, "forward", lambda self, x: linear_forward(self, x) * 3
    ),
    "Linear.forward, autospec": lambda: mock.patch.object(
        nn.Linear, "forward", autospec=True, side_effect=lambda self, x: linear_forward(self, x) * 3
    ),
    "F.linear": lambda: mock.patch(
        "torch.nn.functional.linear", lambda x, w, b=None: linear(x, w, b) * 3
    ),
    "F.linear, wraps": lambda: mock.patch("torch.nn.functional.linear", wraps=linear),
    "Tensor.relu": lambda: mock.patch.object(torch.Tensor, "relu", lambda self: self * 5),
    "Module.__call__": lambda: mock.patch.object(
        nn.Module, "__call__", lambda self, *args, **kwargs: call(self, *args, **kwargs)
    ),
    "Module._call_impl": lambda: mock.patch.object(
        nn.Module, "_call_impl", lambda self, *args, **kwargs: call_impl(self, *args, **kwargs)
    ),
}


class setting:
    def __init__(self, write, now, then):
        self.write, self.now, self.then = write, now, then

    def __enter__(self):
        self.write(self.now)

    def __exit__(self, *exc):
        self.write(self.then)


MODES = {
    "a function mode": Passes,
    "a dispatch mode": PassesOperators,
    "both": lambda: two(Passes(), PassesOperators()),
    "a flop counter": lambda: FlopCounterMode(display=False),
    "a device": lambda: torch.device("cpu"),
    "the meta device": lambda: torch.device("meta"),
    "a default device": lambda: setting(torch.set_default_device, "cpu", None),
    "a default meta device": lambda: setting(torch.set_default_device, "meta", None),
    "a default dtype": lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
    "determinism": lambda: setting(torch.use_deterministic_algorithms, True, False),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "inference_mode": torch.inference_mode,
    "saved tensors elsewhere": torch.autograd.graph.save_on_cpu,
    "a tracer": lambda: setting(sys.settrace, lambda frame, event, arg: None, None),
    "warnings as errors": lambda: strict_warnings(),
}


@contextlib.contextmanager
def two(first, second):
    with first, second:
        yield


@contextlib.contextmanager
def strict_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", {**PATCHES, **MODES})
def test_a_world_that_others_have_changed(name, World):
    around, model = {**PATCHES, **MODES}[name], Base().eval()
    got, x = looked_at(World, model, around)
    # On what it makes itself the model runs as it always does; only patches and autocast change it.
    with around() if name in PATCHES or name == "autocast" else nothing(), torch.no_grad():
        want = model(x)
    exact = {"rtol": 3e-2, "atol": 3e-2} if name == "autocast" else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(got, want, **exact)


@pytest.mark.parametrize("kind", [torch.no_grad, torch.inference_mode])
def test_a_model_that_was_made_and_is_exported_in_one_block(kind):
    class Counts(Base):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            x += 1
            return super().forward(x) + self.calls

    with kind():
        model, x = Counts().eval(), torch.randn(2, 4)
        before = x.clone()
        program = hx.export(model, (x,))
        assert program.proof.ok and float(model.calls) == 0 and torch.equal(x, before)


def test_random_numbers_are_put_back_beside_other_threads(World):
    """A notebook always has some. A model that seeds changes what all of them draw from."""
    model = of(lambda self, x: self.fc(x) * float(torch.manual_seed(3) is not None))
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        torch.manual_seed(1)
        world = World(model)
        hx.export(model, torch.zeros(2, 4))
        world.require_unchanged("a model that seeds")
    finally:
        stop.set()
        thread.join()


def test_a_default_device_is_the_models():
    """What forward makes lands there: here, where there is nothing in it."""
    seen = []

    def forward(self, x):
        seen.append(torch.ones(1).device.type)
        return self.fc(x)

    model, x = of(forward), torch.randn(2, 4)
    with torch.device("meta"):
        hx.scan(model, x)
        assert torch.ones(1).is_meta
    hx.scan(model, x)
    assert seen == ["meta", "cpu"]


TABLES = """
import functools, torch
def table(n): return torch.arange(n, dtype=torch.float32)
kept = functools.lru_cache(table)
class Shifted(torch.nn.Module):
    def forward(self, x): return x + kept(x.shape[0])
"""


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Imports a module of tables, each time anew."""
    (tmp_path / "tables.py").write_text(TABLES)
    monkeypatch.syspath_prepend(tmp_path)

    def imported():
        monkeypatch.delitem(sys.modules, "tables", raising=False)
        return importlib.import_module("tables")

    return imported


def follows(model):
    """Whether a table as long as a size is in the graph, and no lookup of a number is told."""
    program = hx.export(model, torch.randn(5), dynamic={"x": {0: "n"}}, strict=True)
    return torch.equal(program.run(torch.zeros(7)), torch.arange(7.0))


def test_a_module_that_was_imported_anew_is_another_one(tables):
    assert follows(tables().Shifted())
    assert follows(tables().Shifted())


def test_a_function_of_the_models_module_gets_a_cache_between_two_exports(tables):
    module = tables()
    module.kept = module.table
    assert follows(module.Shifted())
    module.kept = functools.lru_cache(module.table)
    assert follows(module.Shifted())

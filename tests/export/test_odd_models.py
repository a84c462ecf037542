"""Models that do what models seldom do: threads, forks, changes to themselves and to the world.

Each is exported with its proof, or refused with an error of its own; and afterwards the world is as
it was.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
import unittest.mock as mock
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from odd import Base, Passes, looked_at, of
from torch import nn

import hx


def starts_a_thread(self, x):
    thread = threading.Thread(target=lambda: self.fc(x))
    thread.start()
    thread.join()
    return self.fc(x)


def forks(self, x):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return self.fc(x)


def computes_in_a_fork(self, x):
    pid = os.fork()
    if pid == 0:
        self.fc(x)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    return self.fc(x)


def asks_a_process(self, x):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return self.fc(x) * pool.apply(abs, (-3,))


def goes_deep(self, x, depth=200):
    return goes_deep(self, x + 1, depth - 1) if depth else self.fc(x)


def exports_a_part(self, x):
    hx.export(self.fc, torch.ones(1, 4))
    return self.fc2(x)


def exports_itself(self, x):
    if not vars(self).get("within"):
        self.within = True
        hx.export(self, torch.ones(1, 4))
        self.within = False
    return self.fc2(x)


def adds_a_hook(self, x):
    self.fc.register_forward_hook(lambda m, args, out: out * 2)
    return self.fc(x)


def removes_a_hook(self, x):
    self.fc._forward_hooks.clear()
    return self.fc(x)


def replaces_a_module(self, x):
    self.fc = self.fc2
    return self.fc(x)


def adds_a_module(self, x):
    self.more = nn.Tanh()
    return self.more(self.fc(x))


def deletes_a_parameter(self, x):
    y = self.fc(x)
    del self.fc.weight
    return y


def deletes_a_module(self, x):
    y = self.fc(x)
    del self.fc
    return y


def patches_torch(self, x):
    with mock.patch("torch.relu", lambda x: x * 2):
        return torch.relu(self.fc(x))


def patches_a_class(self, x):
    with mock.patch.object(nn.Linear, "forward", lambda self, x: x * 2):
        return self.fc(x)


def trains(self, x):
    self.train()
    return self.fc(x)


def freezes(self, x):
    self.requires_grad_(False)
    return self.fc(x)


def allows_gradients(self, x):
    torch.set_grad_enabled(True)
    return self.fc(x)


def sets_the_dtype(self, x):
    torch.set_default_dtype(torch.float64)
    return self.fc(x) + torch.ones(4).float()


def sets_the_device(self, x):
    torch.set_default_device("cpu")
    return self.fc(x) + torch.ones(4)


def wants_determinism(self, x):
    torch.use_deterministic_algorithms(True, warn_only=True)
    return self.fc(x)


def sets_the_threads(self, x):
    torch.set_num_threads(torch.get_num_threads() + 1)
    return self.fc(x)


def sets_the_precision(self, x):
    torch.set_float32_matmul_precision("medium")
    return self.fc(x)


def leaves_a_mode(self, x):
    Passes().__enter__()
    return self.fc(x)


FORWARDS = [
    starts_a_thread, forks, computes_in_a_fork, asks_a_process, goes_deep, exports_a_part,
    exports_itself, adds_a_hook, removes_a_hook, replaces_a_module, adds_a_module,
    deletes_a_parameter, deletes_a_module, patches_torch, patches_a_class, trains, freezes,
    allows_gradients, sets_the_dtype, sets_the_device, wants_determinism, sets_the_threads,
    sets_the_precision, leaves_a_mode,
]  # fmt: skip


# A process with threads that forks is told of by Python from 3.12 on.
@pytest.mark.parametrize("forward", FORWARDS, ids=lambda f: f.__name__)
def test_a_forward_may(forward, World):
    model = of(forward)
    if forward is removes_a_hook:
        model.fc.register_forward_hook(lambda m, args, out: out * 2)
    got, x = looked_at(World, model)
    with contextlib.ExitStack() as after:  # what it leaves when it is run by itself
        after.callback(torch.set_num_threads, torch.get_num_threads())
        after.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        after.callback(torch.set_default_dtype, torch.get_default_dtype())
        after.callback(torch.use_deterministic_algorithms, False)
        after.callback(torch.set_grad_enabled, torch.is_grad_enabled())
        after.callback(torch.set_default_device, None)
        if forward is leaves_a_mode:
            after.callback(torch._C._pop_torch_function_stack)
        want = model(x)
    torch.testing.assert_close(got, want.detach(), rtol=1e-4, atol=1e-5)


def computes_in_a_thread(self, x):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(self.fc, x).result() + x


def exits(self, x):
    sys.exit(0)


@pytest.mark.parametrize(
    "forward, error",
    [
        (computes_in_a_thread, hx.Unaccounted),
        (exits, hx.ExportError),
        (lambda self, x: self(x), RecursionError),
        (lambda self, x: x / (1 // 0), ZeroDivisionError),
        (lambda self, x: next(iter(())), StopIteration),
    ],
)
def test_a_forward_that_will_not_do(forward, error, World, tmp_path):
    model, path, x = of(forward), tmp_path / "m.onnx", torch.randn(2, 4)
    world = World(model)
    with pytest.raises(error):
        hx.export(model, x, path)
    world.require_unchanged("a refusal")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_hook_that_raises(register, World):
    model = Base()
    getattr(model.fc, register)(lambda *about: 1 // 0)
    x = torch.randn(2, 4)
    world = World(model)
    with pytest.raises(ZeroDivisionError):
        hx.export(model, x)
    world.require_unchanged("a hook that raised")

"""Models that do what models seldom do, and worlds that somebody else has already changed.

Each is exported with its proof, or refused with an error of its own; and afterwards the world, with
whatever the other one put there, is as it was.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import sys
import threading
import types
import unittest.mock as mock
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import hx

nothing = contextlib.nullcontext


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.fc2 = nn.Linear(4, 4)
        self.handle = None

    def forward(self, x):
        return self.fc2(self.fc(x).relu())


def of(forward):
    """A model with this forward."""
    return type("Odd", (Base,), {"forward": forward})()


def looked_at(World, model, around=nothing):
    """What the file gives on other inputs than the recorded ones, and what the model gives."""
    x, y = torch.randn(2, 4), torch.randn(2, 4)
    with around():
        world = World(model if isinstance(model, nn.Module) else nn.Module())
        try:
            program = hx.export(model, x)
        finally:
            world.require_unchanged("after the export")
        assert program.proof.ok
    return program.run(y), y


# What a forward may do.


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


class Passes(TorchFunctionMode):
    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class PassesOperators(TorchDispatchMode):
    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


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
@pytest.mark.filterwarnings("ignore:This process")
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


def differentiates(self, x):
    with torch.enable_grad():
        self.fc(x).sum().backward()
    return self.fc(x)


def exits(self, x):
    sys.exit(0)


@pytest.mark.parametrize(
    "forward, error",
    [
        (computes_in_a_thread, hx.Unaccounted),
        (differentiates, hx.Unsupported),
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


# Models that somebody has wrapped, traced or split.


def wrapped_by_partials():
    """As accelerate does it."""
    model = Base()
    for module in model.modules():
        old = module.forward

        def new(module, *args, old=old, **kwargs):
            return old(*(a.to("cpu") for a in args), **kwargs)

        module._old_forward = old
        module.forward = functools.update_wrapper(functools.partial(new, module), old)
    return model


def wrapped_by_methods():
    model = Base()
    for module in model.modules():
        old = module.forward
        module.forward = types.MethodType(lambda self, *args, old=old: old(*args), module)
    return model


class Engine(nn.Module):
    """As deepspeed does it: what it lacks is its model's."""

    def __init__(self):
        super().__init__()
        self.module = Base()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


class Adapted(nn.Module):
    """As peft does it."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora_a = nn.ModuleDict({"default": nn.Linear(4, 2, bias=False)})
        self.lora_b = nn.ModuleDict({"default": nn.Linear(2, 4, bias=False)})

    def forward(self, x, *args, **kwargs):
        y = self.base_layer(x, *args, **kwargs)
        for name, a in self.lora_a.items():
            y = y + self.lora_b[name](a(x.to(a.weight.dtype))) * 0.5
        return y


def adapted():
    model = Base()
    model.fc, model.fc2 = Adapted(model.fc), Adapted(model.fc2)
    return model


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T


def parametrized():
    model = Base()
    nn.utils.parametrize.register_parametrization(model.fc, "weight", Symmetric())
    return model


def with_cached_parameters():
    model = parametrized()

    def forward(self, x):
        with nn.utils.parametrize.cached():
            return self.fc(x) + self.fc(x + 1)

    model.__class__ = type("Cached", (type(model),), {"forward": forward})
    return model


def changed(function, *args):
    def make():
        model = Base()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(model.fc, *args)
        return model

    return make


def compiled_part():
    model = Base()
    model.fc = torch.compile(model.fc, backend="eager")
    return model


def compiled_in_place():
    model = Base()
    model.compile(backend="eager")
    return model


def rewritten_graph():
    model = torch.fx.symbolic_trace(Base())
    for node in model.graph.nodes:
        if node.op == "call_method":
            node.target = "sigmoid"
    model.recompile()
    return model


def decorated(decorator):
    def make():
        model = Base()
        model.forward = decorator(model.forward)
        return model

    return make


def decorated_class(decorator):
    return type("Decorated", (Base,), {"forward": decorator(Base.forward)})


def with_other_parameters():
    model = Base()
    other = {name: p.detach() * 2 for name, p in model.named_parameters()}
    return lambda x: torch.func.functional_call(model, other, (x,))


MODELS = {
    "accelerate": wrapped_by_partials,
    "methods": wrapped_by_methods,
    "deepspeed": Engine,
    "peft": adapted,
    "parametrized": parametrized,
    "parametrized, cached": with_cached_parameters,
    "weight_norm, old": changed(nn.utils.weight_norm),
    "weight_norm": changed(nn.utils.parametrizations.weight_norm),
    "spectral_norm, old": changed(nn.utils.spectral_norm),
    "spectral_norm": changed(nn.utils.parametrizations.spectral_norm),
    "pruned": changed(prune.l1_unstructured, "weight", 0.3),
    "torch.compile": lambda: torch.compile(Base(), backend="eager"),
    "torch.compile, a part": compiled_part,
    "torch.compile, in place": compiled_in_place,
    "torch.fx": lambda: torch.fx.symbolic_trace(Base()),
    "torch.fx, rewritten": rewritten_graph,
    "torch.export": lambda: torch.export.export(Base().eval(), (torch.randn(2, 4),)).module(),
    "no_grad": decorated(torch.no_grad()),
    "no_grad, class": decorated_class(torch.no_grad()),
    "inference_mode": decorated(torch.inference_mode()),
    "inference_mode, class": decorated_class(torch.inference_mode()),
    "vmap": lambda: torch.vmap(Base()),
    "functional_call": with_other_parameters,
    "traced": lambda: torch.jit.trace(Base().eval(), torch.randn(2, 4)),
    "scripted": lambda: torch.jit.script(nn.Sequential(nn.Linear(4, 4))),
    "jit.fork": lambda: of(lambda s, x: torch.jit.wait(torch.jit.fork(s.fc, x)) + s.fc2(x)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_others_have_wrapped(name, World):
    torch._dynamo.reset()
    model = MODELS[name]()
    if isinstance(model, nn.Module) and name != "torch.export":  # which has no other mode
        model.eval()
    got, x = looked_at(World, model)
    with torch.no_grad():
        torch.testing.assert_close(got, model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.func.functionalize(Base()),
        lambda: torch.func.grad(lambda x: (x * x).sum()),
        lambda: lambda x: torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1],
    ],
    ids=["functionalize", "grad", "jvp"],
)
def test_what_cannot_be_watched_is_refused(make, World):
    model, x = make(), torch.randn(2, 4)
    world = World(model if isinstance(model, nn.Module) else nn.Module())
    with pytest.raises(hx.ExportError):
        hx.export(model, x)
    world.require_unchanged("a refusal")


# Worlds that somebody has changed.

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

"""Whatever ends an export, and wherever: nothing of it is left behind.

Faults are raised at every interception point of real models in turn, and interrupts right after
every call that the engine makes of something compiled: there is where Python lets them through.
"""

from __future__ import annotations

import builtins
import functools
import gc
import importlib.util
import math
import os
import random
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import torch._dynamo.eval_frame  # so that its switch is hooked, too
import torch.nn.functional as F
from torch import nn

import hx
from hx import Registry, callables, containers, dims, patching, quiet, routes, turns
from hx.choices import Choices
from hx.doors import Door
from hx.recording import Recording, _local

THOROUGH = bool(os.environ.get("HX_THOROUGH"))


@pytest.fixture(autouse=True)
def one_core():
    """The models are small: threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Stop(Exception):
    pass


# The world, as it should stay.


def hookable():
    """All functions that an export may hook, with their code."""
    choices = Choices(Registry.installed(), 20)
    functions = {*choices.functions, nn.Module._call_impl, nn.Module.__call__}
    functions |= {torch.compiler.is_exporting, torch.jit.is_tracing, torch.onnx.is_in_onnx_export}
    functions.add(torch.autograd.Function.apply.__func__)
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is not None:
        functions.add(dynamo._callback_from_stance)
    return [f for f in functions if isinstance(f, types.FunctionType)]


class World:
    """Everything that an export changes, read before and compared after."""

    def __init__(self, model):
        self.model = model
        self.asked = 0
        self.codes = {f: f.__code__ for f in hookable()}
        self.before = self.read()
        self.contents = {n: t.clone() for n, t in model.state_dict().items()}

    def read(self):
        found = {
            "len": builtins.len, "min": builtins.min, "max": builtins.max, "sqrt": math.sqrt,
            "tensor": dict(vars(torch.Tensor)), "script": vars(torch._C.ScriptFunction)["__call__"],
            "method": vars(torch._C.ScriptMethod)["__call__"],
            "hooked": (len(patching._codes), len(patching._slots)),
            "recording": getattr(_local, "recording", None), "listening": dims.listening(),
            "containers": getattr(containers._local, "known", None),
            "grad": torch.is_grad_enabled(), "inference": torch.is_inference_mode_enabled(),
            "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
            "state": torch._C._get_torch_function_state(),
            "excluded": repr(torch._C._dispatch_tls_local_exclude_set()),
            "included": repr(torch._C._dispatch_tls_local_include_set()),
            "dispatching": torch.utils._python_dispatch.is_in_torch_dispatch_mode(),
            "autocast": torch.is_autocast_enabled("cpu"), "dtype": torch.get_default_dtype(),
            "gc": (gc.get_threshold(), gc.isenabled(), len(quiet._users)),
            "threads": threading.active_count(), "random": random.getstate(),
            "torch": torch.get_rng_state().tolist(), "numpy": repr(np.random.get_state()),
            "stance": getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None),
        }  # fmt: skip
        for path, module in self.model.named_modules():
            state = vars(module)
            found[f"{path}.vars"] = {k: id(v) for k, v in state.items()}
            found[f"{path}.training"] = module.training
            for name in ("_parameters", "_buffers", "_modules"):
                found[f"{path}.{name}"] = {k: id(v) for k, v in state[name].items()}
            for name in [k for k in state if k.endswith("_hooks")]:
                found[f"{path}.{name}"] = list(state[name].items())
            for name, tensor in module.named_parameters(recurse=False):
                found[f"{path}.{name}"] = (
                    tensor.requires_grad,
                    tensor.grad,
                    tensor.data_ptr(),
                    tensor._version,
                )
        return found

    def require_unchanged(self, when):
        now = self.read()
        different = [k for k in {**self.before, **now} if self.before.get(k) != now.get(k)]
        assert not different, f"{when}: {different}"
        for function, code in self.codes.items():
            assert function.__code__ is code, f"{when}: {function.__qualname__} still is hooked"
        self.asked += 1
        for name, tensor in self.model.state_dict(keep_vars=True).items():
            # Parameters are many: their versions are read each time, their contents now and then.
            if not isinstance(tensor, nn.Parameter) or self.asked % 50 == 1:
                assert torch.equal(tensor, self.contents[name]), f"{when}: {name}"


# Models.


class Counting(nn.Module):
    """Around a real model: what a forward may do to its module, and to the world."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("seen", torch.zeros(3))
        self.log = []
        inner.register_forward_hook(lambda m, args, out: self.log.append(1))
        inner.register_forward_pre_hook(lambda m, args: None)

    def forward(self, x):
        self.calls += 1
        self.seen = self.seen + 1
        self.last = x
        torch.manual_seed(random.randrange(9) + int(np.random.rand() * 9))
        return self.inner(x) + self.calls


def resnet():
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    resnet._library = library
    models = importlib.import_module("torchvision").models
    return Counting(models.resnet18(num_classes=4)).train(), torch.randn(1, 3, 32, 32)


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.3)
    layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    return Counting(layers).train(), torch.randn(2, 5, 8)


def attempt(model, x):
    return hx.export(model, x, dynamic={"x": {0: "b"}}, verify=False)


# Faults at interception points.


class Points:
    """Counts what arrives at the doors, and raises at one of them: before it is done, or after."""

    def __init__(self, monkeypatch):
        self.count, self.at, self.error, self.after = 0, None, None, False
        points = self

        def counted(original):
            def arrived(*args, **kwargs):
                points.count += 1
                mine = points.count == points.at
                if mine and not points.after:
                    raise points.error("at a point")
                result = original(*args, **kwargs)
                if mine:
                    raise points.error("at a point")
                return result

            return arrived

        monkeypatch.setattr(Door, "arrived", counted(Door.arrived))
        for room in (routes, callables):
            monkeypatch.setattr(room, "convert", counted(room.convert))
        monkeypatch.setattr(Recording, "origin", counted(Recording.origin))

    def run(self, model, x, at, error, after):
        self.count, self.at, self.error, self.after = 0, at, error, after
        try:
            attempt(model, x)
        except (Stop, KeyboardInterrupt) as e:
            assert type(e) is error
            return True
        return False


@pytest.mark.parametrize("make", [resnet, encoder], ids=["resnet18", "encoder"])
def test_faults_at_every_interception_point(make, monkeypatch, capsys):
    if make is resnet:
        if importlib.util.find_spec("torchvision") is None:
            pytest.skip("torchvision is not installed")
    model, x = make()

    points = Points(monkeypatch)
    points.run(model, x, None, Stop, False)
    total = points.count
    world = World(model)
    tried = 0
    for at in range(1, total + 1):
        for error in (Stop, KeyboardInterrupt):
            after = (at + (error is Stop)) % 2 == 0 and not THOROUGH
            for late in (False, True) if THOROUGH else (after,):
                raised = points.run(model, x, at, error, late)
                world.require_unchanged(f"{error.__name__} at point {at}")
                tried += raised
    with capsys.disabled():
        print(f"\n{make.__name__}: {total} interception points, {tried} faults raised at them")
    assert tried >= 2 * total - 4
    points.run(model, x, None, Stop, False)
    world.require_unchanged("a whole run afterwards")


# Interrupts anywhere in the engine.


class Small(nn.Module):
    """One of each kind of call, quick to export."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.fc = nn.Linear(2, 3)
        self.register_buffer("calls", torch.zeros(1))
        self.register_forward_hook(lambda m, args, out: out * 2)

    def forward(self, x):
        self.calls += 1
        torch.manual_seed(3)
        y = self.norm(self.conv(x)).relu_()
        y[:, 0] = 1.0
        y = F.interpolate(y, scale_factor=2.0).mean((2, 3))
        return self.fc(y.reshape(x.shape[0], -1)), Twice.apply(y)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


ENGINE = str(Path(hx.__file__).parent)


def _of_engine(frame):
    """Code of hx, or a function of Python's or PyTorch's that it calls."""
    caller = frame.f_back
    return frame.f_code.co_filename.startswith(ENGINE) or (
        caller is not None and caller.f_code.co_filename.startswith(ENGINE)
    )


class Interrupt:
    """Raises where Python looks for signals: as a function starts, and as a compiled one returns.

    Each such place in the engine counts once, the first time that it is reached.
    """

    def __init__(self, at):
        self.at, self.sites, self.fired, self.where = at, {}, False, ""

    def __call__(self, frame, event, argument):
        if event == "call":
            place = frame.f_code, -1
        elif event == "c_return":
            place = frame.f_code, frame.f_lasti
        else:
            return
        if place in self.sites or not _of_engine(frame):
            return
        number = self.sites[place] = len(self.sites)
        if number == self.at:
            self.fired = True
            self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno} {event}"
            sys.setprofile(None)
            raise KeyboardInterrupt

    def run(self, model, x):
        try:
            sys.setprofile(self)
            attempt(model, x)
        except KeyboardInterrupt:
            pass
        except hx.HxError as e:
            raise AssertionError(f"an interrupt in {self.where} became {e!r}") from e
        finally:
            sys.setprofile(None)


def others_may_export():
    """Whether the lock that exports share is free to a thread that has not held it."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(_takes_the_lock).result()


def _takes_the_lock():
    taken = turns._lock.acquire(timeout=5)
    if taken:
        turns._lock.release()
    return taken


# Python itself drops what is raised in a finalizer or the callback of a weak reference.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_anywhere_in_the_engine(capsys):
    model, x = Small().train(), torch.randn(2, 1, 6, 6)

    for _ in range(2):  # the first fills the caches
        every = Interrupt(None)
        every.run(model, x)
    total = len(every.sites)
    step = 1 if THOROUGH else max(1, total // 150)
    first = random.Random().randrange(step)  # others each time
    world = World(model)
    tried = 0
    for at in range(first, total, step):
        one = Interrupt(at)
        one.run(model, x)
        world.require_unchanged(f"interrupted in {one.where}")
        assert others_may_export(), one.where
        tried += one.fired
    with capsys.disabled():
        print(f"\n{total} places where the engine can be interrupted, {tried} tried")
    assert tried > 100
    every.run(model, x)
    world.require_unchanged("a whole run afterwards")


# What is left when nothing goes wrong, and when the end is a refusal.


@pytest.mark.parametrize("end", ["right", "missing", "refused", "unverified", "usage", "strict"])
def test_every_ordinary_end_restores(end, tmp_path, lacking):
    def forward(x):
        if end == "missing":
            return torch.special.bessel_j0(x)
        if end == "refused":
            x.resize_(3)
        if end == "unverified":
            return x + float(x.sum())
        if end == "strict":
            return x * 2 if bool(x.sum() > 0) else x
        return x * 2

    class Model(Small):
        def forward(self, x):
            super().forward(x)
            return forward(x * 1)

    model, x = Model().train(), torch.rand(2, 1, 6, 6)
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")
    world = World(model)
    options = {
        "usage": {"opset": 5},
        "strict": {"strict": True},
        "missing": {"packs": lacking("bessel_j0", "special_bessel_j0")},
    }.get(end, {})
    try:
        hx.export(model, x, path, **options)
    except hx.HxError as e:
        assert end != "right", e
    else:
        assert end == "right"
    world.require_unchanged(end)
    assert (path.read_bytes() == b"old") == (end != "right")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


# As above: an interrupt may fall into the callback of a weak reference.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_traceback_that_is_kept_keeps_nothing_hooked():
    """In a notebook the last traceback lives on, and with it every local of the engine."""
    model, x = Small().train(), torch.rand(2, 1, 6, 6)
    every = Interrupt(None)
    every.run(model, x)
    world = World(model)
    kept = []
    for (code, _), number in every.sites.items():
        if code.co_name in ("__exit__", "close", "_undo", "_restore", "inside"):
            one = Interrupt(number)
            try:
                sys.setprofile(one)
                attempt(model, x)
            except KeyboardInterrupt as e:
                kept.append(e)
            finally:
                sys.setprofile(None)
            world.require_unchanged(one.where)
    assert len(kept) > 5


def test_functions_and_the_modules_that_they_reach():
    net, x = Small().train(), torch.rand(2, 1, 6, 6)
    world = World(net)
    named = {n for n, _ in net.named_parameters()}
    for model, prefix in [
        (lambda x: net(x)[0] + 1, "net."),
        (net.forward, ""),
        (net.__call__, ""),
        (functools.partial(net), "func."),
        (functools.partial(lambda m, x: m(x), net), "args.0."),
    ]:
        program = hx.export(model, x, verify=False)
        stored = set(program.model.graph.initializers)
        assert {f"{prefix}{n}" for n in named if n.startswith("fc")} <= stored
        world.require_unchanged(prefix)


def test_random_numbers_of_a_function_are_put_back():
    def model(x):
        torch.manual_seed(3)
        random.random()
        np.random.rand()
        return x * 2

    x = torch.rand(2)
    world = World(nn.Module())
    hx.export(model, x)
    world.require_unchanged("a function")

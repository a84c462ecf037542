"""Whatever ends an export, and wherever: nothing of it is left behind.

Faults are raised at every interception point of real models in turn, and interrupts right after
every call that the engine makes of something compiled: there is where Python lets them through.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import torch._dynamo.eval_frame  # so that its switch is hooked, too
import torch.nn.functional as F
import vision
import warm_python
from restless import Restless
from torch import nn

import hx
from hx.recording.hooks import callables, routes
from hx.recording.hooks.doors import Door
from hx.recording.records import Position
from hx.torchworld.state import model_locks

THOROUGH = bool(os.environ.get("HX_THOROUGH"))


pytestmark = pytest.mark.usefixtures("one_core")


class Stop(Exception):
    pass


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
    resnet = vision.torchvision().models.resnet
    blocks = [2] * 4 if THOROUGH else [1] * 4  # a block of each kind
    net = resnet.ResNet(resnet.BasicBlock, blocks, num_classes=4)
    return Counting(net).train(), torch.randn(1, 3, 32, 32)


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.3)
    layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    return Counting(layers).train(), torch.randn(2, 5, 8)


def attempt(model, x, path=None):
    """An export; with a path a whole one, of a file that is proved, and its data."""
    whole = {"verify": path is not None, "external_data": path is not None}
    return hx.export(model, x, path, dynamic={"x": {0: "b"}}, **whole)


# Faults at interception points.


class Points:
    """Counts what arrives at the doors, and raises from one of them on: before it is done, or after."""

    def __init__(self, monkeypatch):
        self.count, self.at, self.error, self.after = 0, None, None, False
        points = self

        def counted(original):
            def arrived(*args, **kwargs):
                points.count += 1
                mine = points.at is not None and points.count >= points.at
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
        monkeypatch.setattr(Position, "origin", counted(Position.origin))

    def run(self, model, x, at, error, after):
        self.count, self.at, self.error, self.after = 0, at, error, after
        try:
            attempt(model, x)
        except (Stop, KeyboardInterrupt) as e:
            assert type(e) is error
            return True
        return False


@pytest.mark.parametrize("make", [resnet, encoder], ids=["resnet", "encoder"])
def test_faults_at_every_interception_point(make, monkeypatch, capsys, World):
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


class Small(Restless):
    """One of each kind of call."""

    def forward(self, x):
        y = F.interpolate(self.begin(x), scale_factor=2.0).mean((2, 3))
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

    def run(self, model, x, path=None):
        try:
            sys.setprofile(self)
            attempt(model, x, path)
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
    taken = model_locks._lock.acquire(timeout=5)
    if taken:
        model_locks._lock.release()
    return taken


# Python itself drops what is raised in a finalizer or the callback of a weak reference.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("whole", [False, True], ids=["recording", "with its proof and file"])
def test_interrupts_anywhere_in_the_engine(whole, tmp_path, World, capsys):
    model, x = Small().train(), torch.randn(2, 1, 6, 6)
    path = tmp_path / "m.onnx" if whole else None

    for _ in range(3):  # the first fill the caches
        every = Interrupt(None)
        every.run(model, x, path)
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    total = len(every.sites)
    step = 1 if THOROUGH else max(1, total // 75)
    first = random.Random().randrange(step)  # others each time
    world = World(model)
    tried = 0
    for at in range(first, total, step):
        one = Interrupt(at)
        one.run(model, x, path)
        world.require_unchanged(f"interrupted in {one.where}")
        assert others_may_export(), one.where
        left = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        assert left == files, f"{one.where} left {sorted(left)}"
        tried += one.fired
    with capsys.disabled():
        print(f"\n{total} places where the engine can be interrupted, {tried} tried")
    assert tried > 50
    every.run(model, x, path)
    world.require_unchanged("a whole run afterwards")


# What is left when nothing goes wrong, and when the end is a refusal.


@pytest.mark.parametrize("end", ["right", "missing", "refused", "unverified", "usage", "strict"])
def test_every_ordinary_end_restores(end, tmp_path, lacking, World):
    def forward(x):
        if end == "missing":
            return torch.special.bessel_j0(x)
        if end == "refused":
            x.resize_(3)
        if end == "unverified":
            return x + math.atan(x.sum())
        if end == "strict":
            return x * 2 if bool(x.sum() > 0) else x.sum()  # which no graph has both
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
def test_a_traceback_that_is_kept_keeps_nothing_hooked(World):
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


def test_functions_and_the_modules_that_they_reach(World):
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


def test_random_numbers_of_a_function_are_put_back(World):
    def model(x):
        torch.manual_seed(3)
        random.random()
        np.random.rand()
        return x * 2

    x = torch.rand(2)
    world = World(nn.Module())
    hx.export(model, x)
    world.require_unchanged("a function")


@pytest.mark.parametrize("waiting", [False, True])
def test_normal_numbers_of_numpy_are_put_back_one_by_one(waiting):
    """They are made in pairs: the second changes nothing but the note that it was waiting."""
    np.random.seed(0)
    if waiting:
        np.random.randn()

    def model(x):
        return x * float(np.random.randn() > 9)

    before = np.random.get_state()
    hx.export(model, torch.rand(2), verify=False)
    after = np.random.get_state()
    assert before[0] == after[0] and (before[1] == after[1]).all() and before[2:] == after[2:]


def test_the_compiler_of_pytorch_may_be_loaded_by_the_recorded_model():
    """It notes builtins by what they are as it is loaded, and would note a stand-in."""
    code = """if 1:
        import sys, torch, hx
        from torch import nn

        class Loads(nn.Module):
            def forward(self, x):
                import torch._dynamo
                return x.reshape(len(x), -1) + 1

        assert "torch._dynamo" not in sys.modules
        finders = list(sys.meta_path)
        program = hx.export(Loads(), torch.rand(2, 3), None, dynamic={"x": {0: "n"}})
        from torch._dynamo import trace_rules
        for function in (len, min, max, range):
            assert trace_rules.is_builtin_callable(function), function
        late = sys.modules["torch._dynamo"]
        assert type(late.__loader__).__module__.startswith(("importlib", "_frozen_importlib"))
        assert sys.meta_path == finders
    """
    done = warm_python.run_code(code)
    assert done.returncode == 0, done.stderr

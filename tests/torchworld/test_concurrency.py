"""Other threads see nothing of an export; exports in threads, and within one another, are alike."""

from __future__ import annotations

import builtins
import hashlib
import math
import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hx

pytestmark = pytest.mark.usefixtures("one_core")


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.act = nn.GELU()
        self.fc = nn.Linear(width, 5)
        self.table = {"scale": torch.arange(width, dtype=torch.float32)}
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        y = self.act(self.norm(self.conv(x)))
        y = y * self.table["scale"].view(1, len(self.table["scale"]), 1, 1)
        y[:, 0] = 1.0
        n = min(y.shape[2], max(y.shape[3], 1))
        y = F.interpolate(y, size=(n, n)).mean((2, 3)) * math.sqrt(y.shape[2])
        return {"y": self.fc(y.reshape(x.shape[0], -1)), "z": torch.relu(y)}


DYNAMIC = {"x": {0: "b", 2: "h", 3: "w"}}


def seeded(seed, width=4):
    torch.manual_seed(seed)
    return Net(width).train(), torch.randn(2, 3, 8, 8)


def exported(model, x, path, **options):
    hx.export(model, x, path, dynamic=DYNAMIC, **options)
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# The same bytes.


def test_two_exports_are_the_same_bytes(tmp_path):
    model, x = seeded(0)
    first = exported(model, x, tmp_path / "a.onnx")
    assert first == exported(model, x, tmp_path / "b.onnx")
    other, x = seeded(0)
    assert first == exported(other, x, tmp_path / "c.onnx", verify=False)


PROCESS = """
    import hashlib, random, sys
    sys.path.insert(0, {folder!r})
    random.seed()
    junk = [object() for _ in range(random.randrange(10000))]
    import torch
    torch.set_num_threads(1)
    from test_concurrency import exported, seeded
    print(exported(*seeded(0), {path!r}, verify=False))
    """


def test_processes_with_other_hash_seeds_write_the_same_bytes(tmp_path):
    model, x = seeded(0)
    digests = {exported(model, x, tmp_path / "here.onnx", verify=False)}
    for seed in ("0", "1", "4242"):
        text = PROCESS.format(folder=str(Path(__file__).parent), path=str(tmp_path / "there.onnx"))
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0, result.stderr
        digests.add(result.stdout.split()[-1])
    assert len(digests) == 1


# Another thread.


def test_another_thread_sees_nothing(tmp_path):
    """The same classes and functions, run beside many exports: the same bits, and no hooks."""
    model, x = seeded(0)
    mine, y = seeded(1)
    mine.eval()
    threading.current_thread()
    with torch.no_grad():
        expected = {k: v.clone() for k, v in mine(y).items()}
    stop, found, rounds = threading.Event(), [], [0]

    def watch():
        while not stop.is_set():
            with torch.no_grad():
                out = mine(y)
            rounds[0] += 1
            for key, value in expected.items():
                if not torch.equal(out[key], value):
                    found.append(key)
            checks = {
                "exporting": torch.compiler.is_exporting() or torch.jit.is_tracing(),
                "onnx": torch.onnx.is_in_onnx_export(),
                "modes": torch._C._len_torch_function_stack()
                + torch._C._len_torch_dispatch_stack(),
                "grad": not torch.is_grad_enabled(),
                "dispatching": torch.utils._python_dispatch.is_in_torch_dispatch_mode(),
                "shape": type(y.shape[0]) is not int or type(len(y)) is not int,
                "training": mine.training,
                "range": not isinstance(range(3), range) or list(range(3)) != [0, 1, 2],
                "min": builtins.min(3, 2) != 2 or builtins.max([1, 2]) != 2,
                "sqrt": math.sqrt(4) != 2.0 or math.floor(1.5) != 1,
            }
            found.extend(k for k, wrong in checks.items() if wrong)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        for i in range(4):
            exported(model, x, tmp_path / f"{i}.onnx", verify=i == 0)
    finally:
        stop.set()
        thread.join()
    assert rounds[0] > 5
    assert not found, set(found)


def test_another_thread_that_needs_gradients(tmp_path):
    model, x = seeded(0)
    net, y = seeded(1)

    def step():
        net.zero_grad()
        sum(v.square().sum() for v in net(y).values()).backward()
        return [p.grad.clone() for p in net.parameters()]

    net.calls.zero_()
    first = step()
    state = {k: v.clone() for k, v in net.state_dict().items()}
    stop, found, errors = threading.Event(), [], []

    def train():
        try:
            while not stop.is_set():
                net.load_state_dict(state)
                again = step()
                found.append(all(map(torch.equal, first, again)))
        except Exception as e:
            errors.append(e)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        for i in range(3):
            exported(model, x, tmp_path / f"{i}.onnx", verify=False)
    finally:
        stop.set()
        thread.join()
    assert not errors and found and all(found)


# Exports at once.


def test_training_beside_exports_is_the_same_to_the_bit(tmp_path):
    """Dropout and shuffling draw from the one generator that all threads share."""
    model, x = seeded(0)

    def trained(meanwhile):
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 1)).train()
        optimizer = torch.optim.Adam(net.parameters())
        for step in range(300):
            meanwhile(step)
            optimizer.zero_grad()
            net(torch.randn(32, 8)).square().mean().backward()
            optimizer.step()
        return [p.detach().clone() for p in net.parameters()]

    alone = trained(lambda step: None)
    exports, done = [], threading.Event()

    def export():
        while not done.is_set():
            exports.append(exported(model, x, tmp_path / "m.onnx"))

    thread = threading.Thread(target=export)

    def meanwhile(step):
        if step == 10:
            thread.start()
        if step == 290:
            while not exports:
                time.sleep(0.01)

    try:
        beside = trained(meanwhile)
    finally:
        done.set()
        thread.join()
    assert exports
    assert all(map(torch.equal, alone, beside))


@pytest.mark.parametrize("count", [2, 4, 8])
def test_exports_at_once_give_the_bytes_they_give_alone(tmp_path, count):
    models = [seeded(i, 3 + i) for i in range(count)]
    alone = [exported(m, x, tmp_path / f"alone{i}.onnx") for i, (m, x) in enumerate(models)]
    start = threading.Barrier(count)

    def work(i):
        start.wait()
        model, x = models[i]
        return [exported(model, x, tmp_path / f"{i}-{n}.onnx", verify=n == 0) for n in range(3)]

    with ThreadPoolExecutor(count) as pool:
        together = list(pool.map(work, range(count)))
    assert together == [[digest] * 3 for digest in alone]
    for model, _ in models:
        assert model.training and float(model.calls) == 0


def test_exports_of_one_model_at_once_take_turns(tmp_path):
    model, x = seeded(0)
    alone = exported(model, x, tmp_path / "alone.onnx")
    start = threading.Barrier(4)
    part = nn.Sequential(model.conv, model.norm)

    def work(i):
        start.wait()
        if i == 3:
            hx.export(part, x, tmp_path / "part.onnx")
            return alone
        return exported(model, x, tmp_path / f"{i}.onnx")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [alone] * 4
    assert model.training and model.conv.training and float(model.calls) == 0


def test_an_interrupt_while_waiting_for_a_turn_takes_nothing():
    from hx.torchworld.state import model_locks

    module = nn.Linear(1, 1)
    held, done = threading.Event(), threading.Event()

    def hold():
        model_locks.take("theirs", [module])
        held.set()
        done.wait(100)
        model_locks.leave("theirs")

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), __import__("signal").SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            hx.export(module, torch.rand(1, 1))
        assert thread.is_alive()  # their turn was not waited for
    finally:
        done.set()
        thread.join()
    assert not model_locks._taken
    assert module.training
    assert hx.export(module, torch.rand(1, 1)).proof.ok


# Exports within exports.


def test_an_export_in_a_hook_of_another(tmp_path):
    model, x = seeded(0)
    alone = exported(model, x, tmp_path / "alone.onnx")
    inner, y = seeded(1)
    inner_alone = exported(inner, y, tmp_path / "inner_alone.onnx")
    seen = []

    def hook(module, args, out):
        if seen:  # the second export runs this very hook, too
            return
        seen.append(exported(inner, y, tmp_path / "inner.onnx"))
        # Also with a tensor of this very recording, and of a module that is being exported.
        hx.export(module, args[0])

    handle = model.conv.register_forward_hook(hook)
    assert exported(model, x, tmp_path / "outer.onnx", verify=False) == alone
    handle.remove()
    assert seen == [inner_alone]
    assert model.training and inner.training and float(inner.calls) == 0


def test_an_export_in_a_hook_beneath_a_converter(tmp_path):
    """The outer module is spoken for: its body runs unseen, and with it the inner export."""
    from hx import Registry, converter

    model, x = seeded(0)
    inner, y = seeded(1)
    inner_alone = exported(inner, y, tmp_path / "inner_alone.onnx")
    seen = []
    model.conv.register_forward_hook(
        lambda m, args, out: seen.append(exported(inner, y, tmp_path / "inner.onnx"))
    )

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)["y"]

    def convert(op, self, x):
        return op("test", "Whole", x)

    sys.modules.setdefault("test_concurrency", sys.modules[__name__])
    registry = Registry.installed()
    registry.add(converter("test_concurrency.Wrapped")(convert))
    program = hx.export(Wrapped(Outer()), x, packs=registry, verify=False)
    assert [n.op_type for n in program.model.graph] == ["Whole"]
    assert seen == [inner_alone]


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def test_a_nested_export_that_fails_leaves_the_outer_one_whole(tmp_path, lacking):
    model, x = seeded(0)
    alone = exported(model, x, tmp_path / "alone.onnx")
    poor = lacking("bessel_j0", "special_bessel_j0")

    def hook(module, args, out):
        with pytest.raises(hx.MissingConverters):
            hx.export(torch.special.bessel_j0, args[0], packs=poor)
        with pytest.raises(ZeroDivisionError):
            hx.export(lambda x: x / (1 // 0), args[0])

    model.conv.register_forward_hook(hook)
    assert exported(model, x, tmp_path / "outer.onnx", verify=False) == alone


def test_an_export_in_a_thread_that_a_forward_starts(tmp_path):
    model, x = seeded(0)
    alone = exported(model, x, tmp_path / "alone.onnx")
    inner, y = seeded(1)
    inner_alone = exported(inner, y, tmp_path / "inner_alone.onnx")
    seen = []

    def hook(module, args, out):
        with ThreadPoolExecutor(1) as pool:
            seen.append(pool.submit(exported, inner, y, tmp_path / "inner.onnx").result())

    model.conv.register_forward_hook(hook)
    assert exported(model, x, tmp_path / "outer.onnx", verify=False) == alone
    assert seen == [inner_alone]

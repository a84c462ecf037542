"""Tensors come and go by the thousand: none is mistaken for another, and none is kept alive."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import weakref

import pytest
import torch
from called import Single

import hx
from hx.ir import dynamic_axes
from hx.ir.recipe import Loops, Recipe
from hx.merging.loops import Before
from hx.recording.prepare import prepare
from hx.recording.recorder import Recorder
from hx.recording.recording import Recording


def test_ids_of_the_dead_never_mislead(proved):
    def long(x):
        total = torch.zeros(3)
        for i in range(300):
            part = (x * i).sin()
            view = part[0]
            view += 1
            total = total + part.sum(0) * 0.01
            del part, view
            scratch = torch.full((3,), float(i))
            scratch += 1
            total = total + scratch
        return total

    program = proved(Single(long), torch.randn(2, 3), dynamic={"x": {0: "b"}}, sizes=[{"b": 3}])
    assert program.report.nodes > 1000


def branching(x):
    rows = [row.exp() for row in x]
    return torch.stack(rows) if x.sum() > 0 else x[::2]


@pytest.mark.parametrize("loops", [None, Loops(Before([]))], ids=["straight", "loops"])
def test_a_trace_outlives_its_recording(loops):
    x = torch.rand(7, 3)
    request, _ = prepare(branching, (x,), None, ["x"], {"x": {0: "n"}}, dynamic_axes.axes)
    recipe = Recipe(request, request.call.tensors).with_flow(loops=loops)
    gc.collect()
    gc.disable()
    try:
        trace = Recorder(hx.Registry.standing(), 20).record(recipe)
        assert not [each for each in gc.get_objects() if type(each) is Recording]
    finally:
        gc.enable()
    assert [question.kind for question in trace.questions] == ["bool"] and trace.escapes
    assert [node.op for node in trace.nodes].count("Exp") == 7


def peak(script):
    """The most memory that a process of its own held, in MiB."""
    code = textwrap.dedent(script)
    # Otherwise glibc keeps big blocks that were freed, when small ones came to lie between them.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True,
        env=environment,
    )  # fmt: skip
    return float(out.stdout.split()[-1])


DEEP = """
    import torch, hx
    from torch import nn
    from hx.bench.memory import peak

    class Deep(nn.Module):
        def forward(self, x):
            for i in range({layers}):
                x = torch.tanh(x * 1.01)
                x[:, 0] = i
                mask = torch.ones(1024, 2048).tril() * i
                x = x + mask[:1, :1]
                x.view(-1).add_(1)
            return x.sum()

    x = torch.randn(1024, 2048)
    Deep()(x.clone())
    print(peak(lambda: hx.export(Deep(), x, verify=False)) / (1 << 20))
"""


def test_memory_does_not_grow_with_the_layers():
    few, many = peak(DEEP.format(layers=5)), peak(DEEP.format(layers=60))
    # Each layer makes four tensors of 8 MiB.
    assert many - few < 40, (few, many)


def functions_of_a_model():
    """A model whose code is its own alone, and something that all of this code holds."""
    weight = torch.ones(3)

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2 * weight

    class State:
        __slots__ = ("count",)

        def count_up(self):
            self.count = weight

    def shifted(x):
        if torch.overrides.has_torch_function((x,)):
            return torch.overrides.handle_torch_function(shifted, (x,), x)
        return x + weight

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.state = State()
            self.state.count_up()

        def forward(self, x):
            return Doubled.apply(shifted(x))

    return Model(), list(map(weakref.ref, (weight, Doubled, State, shifted, Model)))


def test_code_of_a_model_goes_with_the_model():
    for look in (hx.export, hx.scan):
        model, code = functions_of_a_model()
        look(model, torch.randn(2, 3))
        del model
        gc.collect()  # classes are circles
        assert [each() for each in code] == [None] * len(code)

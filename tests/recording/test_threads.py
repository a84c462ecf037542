"""What a model asks in other threads is not recorded: it is told, with its line."""

from __future__ import annotations

import _thread
import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hx

POOLS = SimpleNamespace()  # whose threads are there before any recording
WEIGHT = torch.ones(3)
STARTS = _thread.start_new_thread


def by_thread(ask):
    out = []
    thread = threading.Thread(target=lambda: out.append(ask()))
    thread.start()
    thread.join()
    return out[0]


def by_new_pool(ask):
    with ThreadPoolExecutor(1) as pool:
        return next(iter(pool.map(lambda _: ask(), [0])))


WAYS = {
    "thread": by_thread,
    "new pool": by_new_pool,
    "pool": lambda ask: POOLS.one.submit(ask).result(),
    "map of a pool": lambda ask: next(POOLS.one.map(lambda _: ask(), [0])),
    "other pool": lambda ask: POOLS.other.apply(ask),
    "map of the other pool": lambda ask: POOLS.other.map(lambda _: ask(), [0])[0],
    "asyncio": lambda ask: asyncio.run(asyncio.to_thread(ask)),
}


@pytest.fixture(scope="module", autouse=True)
def pools():
    with ThreadPoolExecutor(1) as POOLS.one, ThreadPool(1) as POOLS.other:
        POOLS.one.submit(int).result()
        yield


class Model(nn.Module):
    def __init__(self, way, ask):
        super().__init__()
        self.way, self.ask = WAYS[way], ask
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        y = x * 2
        return y if self.way(lambda: self.ask(self, y)) else self.linear(y)


LINE = Model.forward.__code__.co_firstlineno
ASKS = {
    "float": lambda model, y: float(y.max()) > 50,
    "numpy": lambda model, y: y.numpy().max() > 50,
    "size": lambda model, y: y.shape[0] > 50,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ask", ASKS)
def test_what_is_asked_in_another_thread_is_told(way, ask, World):
    model, x = Model(way, ASKS[ask]), torch.ones(2, 3)
    world = World(model)
    report = hx.export(model, x, dynamic={"x": {0: "n"}}).report
    world.require_unchanged(way)
    assert threading._start_new_thread is _thread.start_new_thread is STARTS
    (escape,) = [e for e in report.escapes if e.kind == "thread"]
    code = ASKS[ask].__code__
    assert (escape.where.file, escape.where.line) == (code.co_filename, code.co_firstlineno)
    with pytest.raises(hx.EscapeError, match="test_threads.py"):
        hx.export(model, x, strict=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "ask",
    [
        lambda model, y: bool(WEIGHT.sum() > 5),
        lambda model, y: model.linear.weight.numel() > 100,
        lambda model, y: y.dtype is torch.float64 or y.device.type == "meta",
    ],
    ids=["other tensors", "weights", "what is fixed"],
)
def test_what_follows_from_no_input_is_nothing_to_tell(way, ask):
    model = Model(way, ask)
    assert not hx.export(model, torch.ones(2, 3), strict=True).report.escapes


def test_the_line_that_started_it_is_told_where_the_thread_has_none():
    class Plain(nn.Module):
        def forward(self, x):
            big = POOLS.one.submit((x * 2).item).result() > 50
            return x * 2 if big else x

    (escape,) = hx.export(Plain(), torch.ones(1)).report.escapes
    assert escape.where.line == Plain.forward.__code__.co_firstlineno + 1


def test_what_another_thread_made_or_wrote_is_refused_with_its_line():
    class Makes(nn.Module):
        def forward(self, x):
            return POOLS.one.submit(lambda: x * 2).result()

    class Writes(nn.Module):
        def forward(self, x):
            y = x.clone()
            by_thread(lambda: y.mul_(3))
            return y + 1

    for model, lines, told in ((Makes, 1, "was computed in"), (Writes, 2, "was written to in")):
        with pytest.raises(hx.ExportError, match=f"{told} another thread") as refused:
            hx.export(model(), torch.ones(3))
        assert refused.value.where.file == __file__
        assert refused.value.where.line == model.forward.__code__.co_firstlineno + lines


def test_a_function_that_is_wrapped_is_called_once_there_as_well(monkeypatch):
    relu, heard = F.relu, []
    monkeypatch.setattr(F, "relu", lambda x: relu(x) + 1)

    def model(x):
        heard.append(by_thread(lambda: F.relu(torch.ones(1)).item()))
        return x * 2

    hx.export(model, torch.randn(3), verify=False)
    assert heard == [2.0]

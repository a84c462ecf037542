"""Tensors from nowhere, detours through numpy, missing converters, converters that are wrong."""

from __future__ import annotations

import collections
import ctypes
import decimal
import functools
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from called import Call, asked
from torch import nn
from torch.testing import assert_close

import hx

TABLE = torch.arange(3.0)
HELD = {"deep": [{"table": torch.arange(3.0)}]}
BASE = np.arange(3, dtype=np.float32)
FROM_NUMPY = torch.from_numpy(BASE)


def out_of_sight(function, *args):
    """As compiled code computes: no torch function and no operator arrives anywhere."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return function(*args)


def compiled(function, *args):
    """As a C++ extension calls PyTorch: operators arrive, and torch functions do not."""
    with torch._C.DisableTorchFunction():
        return function(*args)


# Constants that were there before.


class Config:
    table = torch.arange(3.0)

    def __init__(self):
        self.own = torch.arange(3.0)
        self.listed = [torch.arange(3.0)]


@functools.lru_cache
def cached():
    return torch.arange(3.0)


def in_closure():
    table = torch.arange(3.0)
    return lambda m, x: x + table


def in_default(m, x, table=torch.arange(3.0)):  # noqa: B008
    return x + table


cached()
CONFIG = Config()


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: x + TABLE,
        lambda m, x: x + HELD["deep"][0]["table"],
        lambda m, x: x + Config.table,
        lambda m, x: x + CONFIG.own + CONFIG.listed[0],
        lambda m, x: torch.cat([x, cached()[None]]),
        lambda m, x: x + FROM_NUMPY,
        in_closure(),
        in_default,
        lambda m, x: x + m.config.own + m.config.listed[0],
        lambda m, x: x + m.listed[0][0] + m.plain,
        lambda m, x: x + m.partial(),
    ],
)
def test_constants_that_were_there_before(function):
    parts = {
        "config": Config(),
        "listed": [[torch.arange(3.0)]],
        "plain": torch.arange(3.0),
        "partial": functools.partial(lambda t: t, torch.arange(3.0)),
    }
    program = asked(Call(function, **parts), torch.randn(1, 3))
    assert program.proof.ok and not program.report.escapes and not program.report.notes


def test_a_model_that_is_a_function_and_its_constants():
    table = torch.arange(3.0)

    def model(x):
        return x + table

    assert asked(model, torch.randn(1, 3)).ops == ["Add"]
    assert asked(lambda x: x + table, torch.randn(1, 3)).ops == ["Add"]
    assert asked(functools.partial(torch.add, other=table), torch.randn(1, 3)).ops == ["Add"]
    assert asked(functools.partial(lambda t, x: x + t, table), torch.randn(1, 3)).ops == ["Add"]


def test_constants_made_in_forward_in_every_way():
    def forward(m, x):
        a = torch.tensor([1.0, 2.0, 3.0]) + torch.Tensor([1, 2, 3]) + torch.FloatTensor([0, 1, 0])
        b = torch.FloatTensor(3).fill_(2) + torch.Tensor(3).zero_() + torch.as_tensor([1.0, 0, 2])
        c = nn.Parameter(torch.ones(3)) + x.new([1.0, 2.0, 3.0]) + torch.scalar_tensor(2.0)
        d = torch.FloatTensor(3)
        for i in range(d.size(0)):
            d[i] = i
        return x + a + b + c + d

    program = asked(Call(forward), torch.randn(1, 3))
    assert program.ops == ["Add"] * 4
    assert not program.report.escapes and not program.report.notes


# Tensors from nowhere.


def in_list(y):
    return torch.cat([y, y])


def in_dict(y):
    holder = {"y": [y]}
    return torch.cat(holder["y"])


def in_object(y):
    holder = Config()
    holder.own = y
    return holder.own + 1


def in_cell(y):
    def inner():
        return y + 1

    return inner()


@pytest.mark.parametrize(
    "keep", [lambda y: y, lambda y: y + 1, in_list, in_dict, in_object, in_cell]
)
def test_a_tensor_from_nowhere_stops_the_export(keep, line_of):
    def forward(m, x):
        y = out_of_sight(torch.mul, x, 2)
        return keep(y) + x  # here

    with pytest.raises(hx.Unaccounted, match="could not see") as caught:
        asked(Call(forward), torch.randn(1, 3))
    if keep.__name__ == "<lambda>":
        assert caught.value.where.file == __file__


def test_a_tensor_from_nowhere_that_is_returned_or_kept_by_the_model():
    with pytest.raises(hx.Unaccounted):
        asked(Call(lambda m, x: out_of_sight(torch.mul, x, 2)), torch.randn(1, 3))

    def kept(m, x):
        m.last = [out_of_sight(torch.mul, x, 2)]
        return x + m.last[0]

    with pytest.raises(hx.Unaccounted):
        asked(Call(kept), torch.randn(1, 3))


def test_work_in_another_thread_is_not_missed():
    def forward(m, x):
        with ThreadPoolExecutor(2) as pool:
            outs = list(pool.map(lambda k: x * k, (1.0, 2.0)))
        return torch.cat(outs)

    with pytest.raises(hx.Unaccounted, match="another thread"):
        asked(Call(forward), torch.randn(1, 3))

    def started(m, x):
        box = []
        thread = threading.Thread(target=lambda: box.append(torch.relu(x)))
        thread.start()
        thread.join()
        return x + box[0]

    with pytest.raises(hx.Unaccounted):
        asked(Call(started), torch.randn(1, 3))


def test_a_view_from_nowhere_is_refused_and_another_name_is_not():
    def viewed(m, x):
        y = x * 1
        z = out_of_sight(lambda: y[:, 1:])
        return z + 1

    with pytest.raises(hx.Unaccounted, match="shares memory"):
        asked(Call(viewed), torch.randn(2, 3))

    def renamed(m, x):
        y = x * 2
        same = nn.Parameter(y, requires_grad=False)
        other = nn.Parameter(x * 2, requires_grad=False)
        y.add_(1)
        return same + other, nn.Parameter(TABLE) + nn.Buffer(y)

    assert asked(Call(renamed), torch.randn(2, 3)).proof.ok


# Who holds it is asked of the garbage collector seldom: it looks at everything there is.


class Adds(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.forward = lambda x: x + table


def many_in_a_list(n):
    tables = [torch.arange(3.0) + i for i in range(n)]
    return lambda x: sum(tables, x)


def many_objects(n):
    configs = [Config() for _ in range(n)]
    return Call(lambda m, x: sum([c.own for c in m.configs], x), configs=configs)


def many_closures(n):
    return nn.Sequential(*(Adds(torch.arange(3.0) + i) for i in range(n)))


def out_of_reach(n):
    """Their holder hangs on a class of somebody else's."""
    tables = [torch.arange(3.0) + i for i in range(n)]
    decimal.Decimal = type("Decimal", (decimal.Decimal,), {"tables": {"all": tables}})
    return lambda x: sum(decimal.Decimal.tables["all"], x)


@pytest.mark.parametrize(
    ("model", "times"),
    [(many_in_a_list, 0), (many_objects, 0), (many_closures, 0), (out_of_reach, 4)],
)
def test_the_garbage_collector_is_asked_once_for_many(model, times, monkeypatch):
    monkeypatch.setattr(decimal, "Decimal", decimal.Decimal)
    model, calls, referrers = model(30), [], gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", lambda *x: [calls.append(len(x)), referrers(*x)][1])
    program = hx.export(model, torch.randn(1, 3), verify=False)
    assert len(program.model.graph) == 30 and len(calls) <= times


@pytest.mark.parametrize("keep", [in_list, in_dict, in_object, in_cell])
def test_what_was_there_says_nothing_of_what_came_later(keep):
    """Also where others beside it, or what was in its place, were there."""
    before = [torch.arange(3.0)]

    def forward(m, x):
        x = x + before[0] + m.config.listed[0] + CONFIG.listed[0]
        for holder in (before, m.config.listed):
            gone = holder.pop()
            del gone
            holder += []
        return x + keep(out_of_sight(torch.mul, x, 2))[:1]

    with pytest.raises(hx.Unaccounted, match="could not see"):
        asked(Call(forward, config=Config()), torch.randn(1, 3))


class Many(dict):
    pass


Pair = collections.namedtuple("Pair", "table more")


def holding_itself(table):
    found = {"table": table}
    found["me"] = found
    return found


@pytest.mark.parametrize(
    "hold",
    [
        lambda table: collections.OrderedDict(table=table),
        lambda table: collections.defaultdict(int, table=table),
        lambda table: collections.Counter(table=table),
        lambda table: Many(table=[collections.OrderedDict(table=table)]),
        lambda table: Pair(table, 3),
        lambda table: type("L", (list,), {})([table]),
        lambda table: type("T", (tuple,), {})([table]),
        lambda table: {table},
        holding_itself,
    ],
)
def test_what_a_module_holds_in_any_container_was_there_before(hold):
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = hold(torch.arange(4.0) + 1)

        def forward(self, x):
            table = next(iter(self.held.values() if isinstance(self.held, dict) else self.held))
            return x * (table[0]["table"] if isinstance(table, list) else table)

    x = torch.randn(3, 4)
    assert_close(hx.export(Looks(), torch.randn(3, 4)).run(x), x * (torch.arange(4.0) + 1))


def test_a_list_of_the_models_that_gets_a_tensor_from_nowhere():
    def forward(m, x):
        x = x + m.objects[0].own
        m.objects.append(out_of_sight(torch.mul, x, 2))
        return x + m.objects[-1]

    with pytest.raises(hx.Unaccounted, match="could not see"):
        asked(Call(forward, objects=[Config()]), torch.randn(1, 3))


def filled_by_pointer(like):
    """What a C++ extension does: memory by PyTorch, contents by itself."""
    out = torch.empty_like(like)
    source = (ctypes.c_float * like.numel()).from_address(like.data_ptr())
    target = (ctypes.c_float * out.numel()).from_address(out.data_ptr())
    for i, n in enumerate(source):
        target[i] = n * 2
    return out


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "b"}}])
def test_memory_that_compiled_code_filled_is_not_taken_for_a_constant(dynamic):
    def forward(m, x):
        return compiled(filled_by_pointer, x) + 1

    with pytest.raises(hx.Unaccounted, match="no recorded call wrote it"):
        asked(Call(forward), torch.randn(2, 3), dynamic=dynamic)
    with pytest.raises(hx.Unaccounted, match="no recorded call wrote it"):
        asked(Call(lambda m, x: compiled(filled_by_pointer, x)), torch.randn(2, 3), dynamic=dynamic)
    with pytest.raises(hx.Unaccounted, match="no recorded call wrote it"):
        asked(
            Call(lambda m, x: compiled(filled_by_pointer, x)[0]), torch.randn(2, 3), dynamic=dynamic
        )


def test_compiled_code_that_calls_operators_is_recorded():
    def kernel(x):
        out = torch.empty_like(x)
        torch.mul(x, 2, out=out)
        view = out[:, 1:]
        view.add_(1)
        return out

    program = asked(Call(lambda m, x: compiled(kernel, x) + 1), torch.randn(2, 3))
    assert program.proof.ok

    def reshaped(x):
        return (x * 2).view(x.shape[0] * x.shape[1])

    asked(Call(lambda m, x: compiled(reshaped, x)), torch.randn(2, 3))
    program = asked(
        Call(lambda m, x: compiled(reshaped, x)),
        torch.randn(2, 3),
        dynamic={"x": [0]},
        verify=False,
    )
    assert [e.kind for e in program.report.escapes] == ["baked"]


# Numpy.


def detour(m, x):
    a = x.numpy()  # out
    return x + torch.from_numpy(np.cbrt(a))  # back


@pytest.mark.parametrize(
    "out",
    [
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: np.array(x.tolist(), dtype=np.float32),
        lambda x: np.abs(x),
        lambda x: np.array([float(x[0, i]) for i in range(3)], dtype=np.float32),
    ],
)
@pytest.mark.parametrize(
    "back",
    [
        torch.from_numpy,
        torch.tensor,
        torch.as_tensor,
        torch.Tensor,
        torch.from_dlpack,
        lambda a: torch.frombuffer(bytearray(a.tobytes()), dtype=torch.float32),
    ],
)
def test_detours_through_numpy_are_told(out, back):
    def forward(m, x):
        a = np.array(out(x), dtype=np.float32)
        return x + back(a).reshape(-1)[:3]

    program = asked(Call(forward), torch.randn(1, 3), verify=False)
    assert program.report.escapes
    assert all(e.where.file == __file__ for e in program.report.escapes)
    with pytest.raises(hx.EscapeError, match=r"left the graph"):
        asked(Call(forward), torch.randn(1, 3), strict=True, verify=False)


def test_a_detour_is_told_with_both_lines_and_fails_the_proof(line_of):
    program = asked(Call(detour), torch.randn(1, 3), verify=False)
    told = {(e.kind, e.where.line) for e in program.report.escapes}
    assert told == {("numpy", line_of(detour, "# out")), ("from_numpy", line_of(detour, "# back"))}
    with pytest.raises(hx.EscapeError) as caught:
        asked(Call(detour), torch.randn(1, 3), strict=True)
    assert caught.value.where.line == line_of(detour, "# out")
    with pytest.raises(hx.VerificationError):
        asked(Call(detour), torch.randn(1, 3))


def test_a_table_of_numpys_is_a_constant_and_noted():
    def forward(m, x):
        return x + torch.from_numpy(np.arange(3, dtype=np.float32))

    program = asked(Call(forward), torch.randn(1, 3), strict=True)
    assert program.ops == ["Add"]
    assert len(program.report.notes) == 1 and "from_numpy" in program.report.notes[0]
    # Where sizes may vary, one may be in it: numpy takes them for numbers.
    program = asked(Call(forward), torch.randn(1, 3), dynamic={"x": [0]})
    assert [e.kind for e in program.report.escapes] == ["from_numpy"]


@pytest.mark.parametrize(
    "back",
    [
        lambda x: torch.from_numpy(x.detach().numpy()),
        lambda x: torch.as_tensor(x.data.cpu().numpy()),
        lambda x: torch.tensor(x.numpy(), dtype=torch.float64).float(),
        lambda x: torch.from_numpy((x + 1).numpy()) - 1,
        lambda x: torch.from_numpy(x[:, 1:].numpy()),
        lambda x: torch.from_numpy(np.asarray(x)),
    ],
    ids=["from_numpy", "as_tensor", "tensor", "computed", "part", "asarray"],
)
def test_an_array_that_comes_back_as_it_was_is_the_tensor(proved, back):
    def model(x):
        return back(x) * x[:, -1:]

    proved(model, torch.randn(2, 3), dynamic={"x": {0: "n"}}, sizes=[{"n": 1}, {"n": 5}])


@pytest.mark.parametrize("out", ["numpy", "data_ptr", "untyped_storage"])
@pytest.mark.parametrize(
    "dynamic", [None, {"x": {0: "n"}, "y": {0: "m"}}], ids=["fixed", "dynamic"]
)
def test_the_length_of_what_numpy_has(proved, out, dynamic):
    def model(x, y):
        getattr(y, out)()
        return x * len(y) + len(y[1:])

    at = [{"n": 3, "m": 7}] if dynamic else ()
    proved(model, (torch.randn(2, 3), torch.randn(4)), dynamic=dynamic, sizes=at)


def test_the_length_of_what_was_written_to_out_of_sight():
    def model(x):
        y = x * 1
        y.numpy().fill(5)
        return x * len(y)

    with pytest.raises(hx.Unaccounted, match="an array over its memory"):
        hx.export(model, torch.randn(2, 3), verify=False)


def test_an_array_that_was_written_to_is_not(line_of):
    def model(x):
        a = (x * 1).numpy()  # made
        a.fill(5)
        return torch.from_numpy(a) * 2  # read

    with pytest.raises(hx.Unaccounted, match="write to the tensor") as caught:
        hx.export(model, torch.randn(2, 3), verify=False)
    assert str(caught.value.where).startswith(f"{__file__}:{line_of(model, '# read')}")
    assert f"{__file__}:{line_of(model, '# made')}" in str(caught.value)


def test_writes_through_numpy_are_told():
    def forward(m, x):
        y = x * 1
        y.numpy().fill(5)
        return y + 1

    with pytest.raises(hx.Unaccounted, match="an array over its memory"):
        asked(Call(forward), torch.randn(1, 3), verify=False)

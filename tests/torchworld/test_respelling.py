"""int(), floats on the left of a size, and lists that are asked for an item: sizes stay sizes."""

from __future__ import annotations

import functools
import linecache
import math
import sys
import threading

import pytest
import torch
from called import Single
from torch import nn

import hx
from hx.ir.knowledge import Knowledge
from hx.torchworld.spelling import respelling

WORDS = {"x": {0: "b", 1: "n"}}
SIZES = [{"b": 5, "n": 9}, {"b": 1, "n": 1}, {"b": 2, "n": 16}]
TABLE = [float(i) for i in range(20)]


def half(n):
    return int(n * 0.5)


def made(n, scale: float = 0.5, *, more=1):
    # A comment, (and a bracket
    text = """kept
as it is"""
    return int(n * scale) + more + len(text) - len(text)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.25
        self.__secret = 3.0

    def forward(self, x):
        return x * (self.__secret / x.shape[0])

    @staticmethod
    def width(n):
        return int(math.sqrt(n))

    @property
    def twice(self):
        return 2.0 * self.scale


class Derived(Base):
    def forward(self, x):
        b, n = x.shape[:2]
        y = super().forward(x) + self.scale * b - self.scale / n
        scale = 1.0
        scale *= n
        return y * scale, torch.zeros(self.width(n) + int(self.twice * b))


def decorated(function):
    @functools.wraps(function)
    def around(*args, **kwargs):
        return function(*args, **kwargs)

    return around


def ways():
    one = 1.0

    def floats_on_the_left(x):
        n, b = x.shape[1], x.shape[0]
        return (
            x * (1.0 / n), x + 1.5 * n, x - (0.5 + b), x * (7.5 - n), x + 2.0**b / 9, x + 7.5 // n,
            x + 7.5 % n, x * (one / n), x + -0.5 * n, [q * (1.0 / n) for q in (x, x)],
            (lambda k: one / k)(n) * x,
        )  # fmt: skip

    def ints(x):
        n, b = x.shape[1], x.shape[0]
        return (
            torch.zeros(int(n)), torch.zeros(int(n * 0.5)), x[:, : int(n / 2)], torch.zeros(half(n)),
            torch.zeros(made(n)), torch.zeros(made(n, 1.5, more=2)), x * int(b / 2), float(n) * x,
            x * float(n / 3), torch.zeros(sum(map(int, (1, 2)))), x * int("3") * int(2.7),
        )  # fmt: skip

    @decorated
    def under_a_decorator(x):
        return x * (1.0 / x.shape[0])

    def counted(x):
        return x.reshape(x.shape.numel()), x[:, :, 0] * x.shape[:2].numel(), x * x.numel()

    def made_by_class(x):
        n, b = x.shape[1], x.shape[0]
        return (
            x * torch.Tensor([n]), torch.LongTensor([[n, 1], [2, b * n]]), torch.FloatTensor([b / n]),
            torch.Tensor(b, n).zero_() + 1, torch.IntTensor(x.shape).fill_(3), torch.Tensor([[2.5]]),
        )  # fmt: skip

    def in_a_window(x):
        """As Swin has it: windows back to where they were."""
        b, n, c = x.shape
        y = x.reshape(b * n, c // 2, 2)
        return y.reshape(int(y.shape[0] / (n * 2 / 2)), n, -1)

    return [floats_on_the_left, ints, under_a_decorator, counted, made_by_class, in_a_window]


@pytest.mark.parametrize("function", ways(), ids=lambda f: f.__name__)
def test_at_every_size(proved, function):
    program = proved(function, torch.randn(3, 6, 4), WORDS, SIZES)
    assert not program.report.escapes


def test_methods(proved):
    """Private names, super(), static methods and properties are what they were."""
    assert not proved(Derived(), torch.randn(3, 6, 4), WORDS, SIZES).report.escapes


def picks():
    def of_a_text(x):
        return x * float("123456789"[x.shape[1]])

    def of_bytes(x):
        return x * b"abcdefgh"[x.shape[1] - 1]

    def some_of_a_list(x):
        return x * sum(TABLE[: x.shape[1]])

    def of_a_dict(x):
        return x * {64: 1.0}.get(x.shape[1], 2.0)

    def of_a_set(x):
        return x * 2 if (x.shape[1] / 2) in {32.0, 64.0} else x

    return [
        (of_a_text, "item n of a str"),
        (of_bytes, "item n - 1 of a bytes"),
        (some_of_a_list, "items up to n of a list"),
        (of_a_dict, "n == 64"),
        (of_a_set, "(n/2.0) == 32.0"),
    ]


@pytest.mark.parametrize(("function", "told"), picks())
def test_what_a_size_picks_is_told(function, told):
    (escape,) = hx.scan(function, torch.randn(3, 6), dynamic=WORDS).escapes
    assert told in escape.detail
    assert (escape.where.file, escape.where.function) == (__file__, function.__name__)


def test_what_is_found_in_a_dict_is_a_branch_on_the_size():
    def f(x):
        return x * {6: 1.0}.get(x.shape[1], 2.0)

    (branch,) = hx.scan(f, torch.randn(3, 6), dynamic=WORDS).escapes
    assert branch.kind == "branch" and branch.detail == "n == 6"


def test_the_functions_are_the_same_afterwards_and_errors_point_at_their_lines(line_of):
    before = half.__code__, Derived.forward.__code__, made.__code__

    class Fails(nn.Module):
        def forward(self, x):
            y = x * (1.0 / x.shape[0])
            raise ValueError(str(y.shape))  # here

    with pytest.raises(ValueError, match="torch.Size") as caught:
        hx.export(Fails(), torch.randn(3, 6), dynamic=WORDS)
    lines = [e.lineno for e in caught.traceback if e.path.name == "test_respelling.py"]
    assert lines[-1] + 1 == line_of(Fails, "# here")
    hx.export(Derived(), torch.randn(3, 6), dynamic=WORDS)
    assert before == (half.__code__, Derived.forward.__code__, made.__code__)
    assert half(7) == 3 and type(half(7)) is int


def test_another_thread_runs_what_is_written():
    """Its lists, floats and ints are asked nothing."""
    inside, done, seen = threading.Event(), threading.Event(), []

    class Waits(nn.Module):
        def forward(self, x):
            inside.set()
            done.wait(20)
            return x * (1.0 / x.shape[0]), torch.zeros(half(x.shape[1]))

    def other():
        inside.wait(20)
        seen.append((half(9), type(half(9)), made(8), Base.width(16)))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    hx.export(Waits(), torch.randn(3, 6), dynamic=WORDS)
    thread.join()
    assert seen == [(4, int, 5, 4)]


def test_a_function_that_shadows_int_keeps_its_own(proved):
    def shadowed(x):
        int = float
        return x * int(2) + torch.ones(3, 6)[0, 0] * (3 if isinstance(int(2), float) else 0)

    proved(shadowed, torch.randn(3, 6), WORDS, [{"b": 5}])


KINDS = {int: torch.int64, float: torch.float32}


def test_the_type_of_a_size_is_that_of_a_number(proved):
    def function(x):
        n = x.shape[1]
        if type(n) is not int or type(x) is not torch.Tensor:
            raise TypeError(type(n))
        return x + torch.arange(n, dtype=KINDS[type(n)]) * torch.ones(n, dtype=KINDS[type(n / 2)])

    program = proved(function, torch.randn(2, 5), {"x": {1: "n"}}, [{"n": 7}, {"n": 1}])
    assert not program.report.escapes


@pytest.mark.parametrize("number", [2.5, 3, True])
def test_a_number_in_a_tensor_is_one_that_the_run_knows(number, proved):
    def function(x, v):
        return x * float(v) + int(v)

    program = proved(function, (torch.randn(2, 3), torch.tensor(number)))
    x, v = torch.randn(2, 3), torch.tensor(number) * 0 + 1
    torch.testing.assert_close(program.run(x, v.to(torch.tensor(number).dtype)), x + 1)


def test_a_function_on_one_line_under_a_decorator(tmp_path, proved):
    path = tmp_path / "short.py"
    path.write_text("def same(f): return f\n@same\ndef run(x): return x * int(x.shape[1] + 2)\n")
    space: dict = {"__name__": "short"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    assert not proved(space["run"], torch.randn(3, 6), WORDS, SIZES).report.escapes


def test_a_file_that_was_changed_since_it_was_imported_is_not_read(tmp_path, proved):
    """What runs is what was imported."""
    path = tmp_path / "edited.py"
    before = "def run(x):\n    return x * int(x.shape[1] + 2)\n"
    path.write_text(before)
    space: dict = {"__name__": "edited"}
    exec(compile(before, str(path), "exec"), space)
    path.write_text(before.replace("+", "  -"))
    report = hx.scan(space["run"], torch.randn(3, 6), dynamic=WORDS)
    assert [e.kind for e in report.escapes] == ["int"]
    path.write_text(before)
    linecache.checkcache(str(path))
    again: dict = {"__name__": "edited"}
    exec(compile("\n" + before, str(path), "exec"), again)  # a line further down
    assert [e.kind for e in hx.scan(again["run"], torch.randn(3, 6), dynamic=WORDS).escapes] == [
        "int"
    ]
    fresh: dict = {"__name__": "edited"}
    exec(compile(before, str(path), "exec"), fresh)
    assert not proved(fresh["run"], torch.randn(3, 6), WORDS, SIZES).report.escapes


class Called(nn.Module):
    def __call__(self, x, index, count=None):
        return super().__call__(x, index, int(index.max()) + 1 if count is None else count)


class Summed(Called):
    def forward(self, x, index, count):
        return x.new_zeros(count, x.shape[1]).index_add(0, index, x)


def test_what_a_module_does_as_it_is_called_is_respelled():
    x, index = torch.randn(4, 3), torch.tensor([0, 0, 1, 2])
    program = hx.export(Summed(), (x, index), None, dynamic={"x": {0: "n"}, "index": {0: "n"}})
    index = torch.tensor([4, 0, 0, 6])
    assert torch.equal(program.run(x, index), Summed()(x, index))


def halves():
    """A module that only a function around another one has."""
    import sizes_of_others

    return lambda x: x * sizes_of_others.half(x.shape[1])


def imports_it(x):
    from sizes_of_others import half

    return x * half(x.shape[1])


@pytest.mark.parametrize("make", [halves, lambda: imports_it], ids=["around", "inside"])
def test_functions_of_modules_that_are_no_globals(make, tmp_path, monkeypatch):
    (tmp_path / "sizes_of_others.py").write_text("def half(n):\n    return int(n * 0.5)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sizes_of_others", raising=False)
    function = make()
    function(torch.ones(2, 3))
    program = hx.export(function, torch.randn(2, 6), None, dynamic={"x": {1: "n"}})
    assert not program.report.escapes
    assert program.proof.ok


def shares(k):
    return lambda x: x[:, : int(x.shape[1] * k)]


# Two on one line, and one that a function made.
LAMBDAS = [lambda x: x[:, : int(x.shape[1] * 0.5)], lambda x: x * (2.0 / x.shape[1])]
LAMBDAS += [shares(0.3), lambda x, more=3: x[:, : int(x.shape[1] ** 0.5) + more]]


@pytest.mark.parametrize("index", range(len(LAMBDAS)))
def test_lambdas_keep_sizes(index, proved):
    model = Single(LAMBDAS[index])
    program = proved(model, torch.randn(2, 9), dynamic=WORDS, sizes=SIZES)
    assert not program.report.escapes


def test_what_a_decorated_function_around_a_class_calls(proved):
    def run(function):
        class Around(nn.Module):
            def forward(self, x):
                return function(x)

        return Around()

    def scaled(x):
        return x * int(x.shape[1] * 0.5)

    program = proved(run(decorated(decorated(scaled))), torch.randn(2, 9), WORDS, SIZES)
    assert not program.report.escapes
    program = proved(run(functools.partial(decorated(scaled))), torch.randn(2, 9), WORDS, SIZES)
    assert not program.report.escapes


def noted(function):
    """As libraries do that count who is called."""
    assert callable(function)


def middle(x, n):
    noted(middle)
    top = int(round((x.shape[1] - n) / 2.0))
    return x[:, top : top + n]


def quarters(n):
    return n if n < 4 else quarters(int(n / 4.0))


@pytest.mark.parametrize(
    "model",
    [lambda x: middle(x, 3), lambda x: x * int(x.shape[1] / 2.0) + quarters(3)],
    ids=["a_name_of_its_own", "that_calls_itself"],
)
def test_a_function_that_names_itself_keeps_sizes(model):
    program = hx.export(model, torch.randn(2, 8), dynamic={"x": {1: "n"}})
    for n in (4, 5, 9, 12):
        x = torch.randn(2, n)
        torch.testing.assert_close(program.run(x), model(x), msg=f"at {n}")
    assert not [e for e in program.report.escapes if e.kind == "int"]


def test_the_functions_of_a_code_are_sought_once(monkeypatch):
    """The search looks at everything that Python holds, after each strategy that fails."""
    knowledge, sought = Knowledge(), []

    def running(codes):
        sought.append(list(codes))
        return []

    monkeypatch.setattr(respelling.reachable_functions, "running", running)
    met = [test_the_functions_of_a_code_are_sought_once.__code__, running.__code__]
    for code in met:
        knowledge.met.add(code)
        assert not respelling.reaches_more(knowledge)
        assert not respelling.reaches_more(knowledge)
    assert sought == [[met[0]], [], [met[1]], []]

"""Hooks are seen by the thread that set them, wherever a function is stored, and leave nothing."""

import functools
import importlib
import inspect
import math
import sys
import threading
import types
import warnings

import pytest
import torch
from interrupted import interrupted
from steps import steps
from torch import nn

import hx
from hx import cleanup
from hx.errors import TargetError
from hx.torchworld import patching


def plain(a, b=2, /, c=3, *args, k, m=5, **kw):
    return a, b, c, args, k, m, kw


def simple(x, scale=2):
    """Doc."""
    return x * scale


def other(x):
    return x + 1


stored = functools.partial(simple, scale=3)


def tag(original, args, kwargs):
    return ("hooked", original(*args, **kwargs))


class Base(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Sub(Base):
    pass


class Super(Base):
    def forward(self, x):
        return super().forward(x) * 10


def test_every_reference_is_caught():
    code, kept, bound = simple.__code__, simple, Base().forward
    instance = types.SimpleNamespace(act=simple)
    with patching.hooks({simple: tag, Base.forward: tag}):
        assert kept(1) == instance.act(1) == ("hooked", 2)
        assert stored(1) == ("hooked", 3)
        assert bound(1) == Sub()(1) == ("hooked", 2)
        assert Super()(1) == ("hooked", 2) * 10
    assert simple.__code__ is code
    assert kept(1) == 2 and stored(1) == 3 and bound(1) == 2


def test_the_signature_and_the_place_stay():
    looks = [inspect.signature, inspect.getsourcefile, inspect.getsource, inspect.getdoc, repr]
    before = [look(f) for look in looks for f in (plain, simple)]
    with patching.hooks({plain: tag, simple: tag}):
        assert [look(f) for look in looks for f in (plain, simple)] == before
        with pytest.raises(TypeError, match=r"simple\(\) missing 1 required positional"):
            simple()
        with pytest.raises(TypeError, match=r"missing 1 required keyword-only argument: 'k'"):
            plain(1)


def test_arguments_arrive_as_they_were_bound():
    def show(original, args, kwargs):
        assert original(*args, **kwargs) == expected
        return args, kwargs

    with patching.hooks({plain: show}):
        expected = (1, 2, 3, (), 4, 5, {})
        assert plain(1, k=4) == ((1, 2, 3), {"k": 4, "m": 5})
        expected = (1, 2, 3, (4,), 5, 6, {"z": 7})
        assert plain(1, 2, 3, 4, k=5, m=6, z=7) == ((1, 2, 3, 4), {"k": 5, "m": 6, "z": 7})


def test_closures_recursion_lambdas_and_class_cells():
    step, call = 10, 1

    def shift(x, *, by=1):
        return x + step * by + call

    count = lambda n: n and 1 + count(n - 1)  # noqa: E731
    with patching.hooks({shift: tag, count: lambda o, a, k: o(*a, **k), Super.forward: tag}):
        assert shift(1, by=2) == ("hooked", 22)
        step = 20
        assert shift(1) == ("hooked", 22)
        assert count(3) == 3
        assert Super()(1) == ("hooked", 20)
    assert shift(1) == 22
    assert shift.__code__.co_freevars == ("call", "step")


def test_names_of_all_kinds():
    space: dict = {}
    names = [f"p{i}" for i in range(300)]
    exec(f"def many({', '.join(names)}): return p0 + p299", space)
    comprehension = types.FunctionType(
        next(c for c in compile("[x for x in y]; (i for i in z)", "", "exec").co_consts
             if isinstance(c, types.CodeType) and ".0" in c.co_varnames), {})  # fmt: skip
    with patching.hooks({space["many"]: tag, comprehension: lambda o, a, k: len(a)}):
        assert space["many"](*range(300)) == ("hooked", 299)
        assert comprehension(iter([1])) == 1


def test_what_a_handler_gets_as_the_original_is_as_the_function_is():
    simple.mark = object()
    got = []
    with patching.hooks({simple: lambda original, args, kwargs: got.append(original)}):
        simple(4)
        assert patching.own_code(simple) is not simple.__code__
    (copy,) = got
    assert copy.__code__ is simple.__code__ is patching.own_code(simple)
    with patching.hooks({simple: tag}):
        assert copy(4) == 8 and simple(4) == ("hooked", 8)
    assert copy.mark is simple.mark and copy.__doc__ == "Doc."
    assert inspect.signature(copy) == inspect.signature(simple)
    del simple.mark


def test_the_innermost_handler_wins_and_any_order_of_leaving_restores():
    code = simple.__code__
    outer = patching.hooks({simple: lambda o, a, k: "outer"})
    inner = patching.hooks({simple: lambda o, a, k: "inner", other: lambda o, a, k: "inner"})
    with outer:
        with inner:
            assert (simple(1), other(1)) == ("inner", "inner")
        assert (simple(1), other(1)) == ("outer", 2)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert simple(1) == "inner"
    inner.__exit__(None, None, None)
    assert simple.__code__ is code and simple(1) == 2


def test_entering_twice_is_refused_and_harmless():
    hooks = patching.hooks({simple: tag})
    with hooks:
        with pytest.raises(RuntimeError):
            hooks.__enter__()
        assert simple(1) == ("hooked", 2)
    assert simple(1) == 2
    with hooks:
        assert simple(1) == ("hooked", 2)


def test_other_threads_and_child_threads_see_nothing():
    seen = []

    def child():
        seen.append(simple(1))

    with patching.hooks({simple: tag}):
        thread = threading.Thread(target=child)
        thread.start()
        thread.join()
        assert simple(1) == ("hooked", 2)
    assert seen == [2]


def test_two_threads_hook_the_same_functions_in_every_interleaving():
    code = simple.__code__
    failures = []

    def work(name):
        def handler(original, args, kwargs):
            return name, original(*args, **kwargs)

        for _ in range(300):
            with patching.hooks({simple: handler, other: handler}):
                if simple(1) != (name, 2) or other(1) != (name, 2):
                    failures.append(name)
            if simple(1) != 2:
                failures.append("outside")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert simple.__code__ is code and not patching._codes


def test_a_thread_that_dies_inside_its_hooks_leaves_nothing():
    def leave():
        patching.hooks({simple: tag}).__enter__()

    code = simple.__code__
    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert simple.__code__ is code


def test_exceptions_pass_and_restore():
    code = simple.__code__
    with pytest.raises(ZeroDivisionError), patching.hooks({simple: lambda o, a, k: 1 / 0}):
        simple(1)
    assert simple.__code__ is code


def test_failing_half_way_rolls_back():
    code = simple.__code__

    class Odd(dict):
        def items(self):
            yield simple, tag
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"), patching.hooks(Odd()):
        pass
    assert simple.__code__ is code and not patching._codes
    with pytest.raises(TargetError, match="not a plain Python function"):
        patching.hooks({simple: tag, len: tag})
    assert simple.__code__ is code


def test_code_that_somebody_else_set_meanwhile_is_left_alone():
    def victim(x):
        return x

    theirs = (lambda x: "theirs").__code__
    with (
        pytest.warns(RuntimeWarning, match=r"victim was replaced by somebody else"),
        patching.hooks({victim: tag}),
    ):
        victim.__code__ = theirs
    assert victim.__code__ is theirs and not patching._codes
    with patching.hooks({victim: tag}):
        assert victim(1) == ("hooked", "theirs")
    assert victim.__code__ is theirs


def interrupt_each_line(run, check):
    """Runs it again and again, with an interrupt at its first, second, ... line of patching."""
    for at in range(1, 2000):
        if not interrupted(run, at, [patching, cleanup]):
            return at
        check(at)
    raise AssertionError("never came to an end")


def test_an_interrupt_at_any_line_leaves_the_world_restored():
    code, code2 = simple.__code__, other.__code__

    def run():
        with patching.hooks({simple: tag, other: tag}), patching.hooks({simple: tag}):
            pass

    def check(at):
        assert simple.__code__ is code and other.__code__ is code2, f"at line {at}"
        assert (simple(1), other(1)) == (2, 2)
        got = []

        def use():
            with patching.hooks({simple: tag}):
                got.append(simple(1))

        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        thread.join(5)
        assert got == [("hooked", 2)], f"stuck after an interrupt at line {at}"

    assert interrupt_each_line(run, check) > 60
    assert not patching._codes


def test_an_interrupt_at_any_line_of_attributes():
    module = types.ModuleType("hx_interrupted")
    module.f = raw = len

    def run():
        with patching.attributes([(module, "f", lambda o: lambda x: -o(x)),
                                  (Sub, "forward", lambda o: lambda self, x: 0)]):  # fmt: skip
            pass

    def check(at):
        assert module.f is raw and "forward" not in vars(Sub), f"at line {at}"

    assert interrupt_each_line(run, check) > 40


# Attributes.


def wrapper(original):
    return lambda *args, **kwargs: ("wrapped", original(*args, **kwargs))


class Holder:
    builtin = len

    @staticmethod
    def still(x):
        return x

    @classmethod
    def made(cls, x):
        return cls, x

    def plain(self, x):
        return self, x


class Heir(Holder):
    pass


def test_attributes_of_every_kind_of_descriptor():
    before = dict(vars(Holder))
    names = ["builtin", "still", "made", "plain"]
    with patching.attributes([(Holder, n, wrapper) for n in names]):
        h = Holder()
        assert h.builtin([1]) == ("wrapped", 1)
        assert h.still(1) == Holder.still(1) == ("wrapped", 1)
        assert Heir.made(1) == ("wrapped", (Heir, 1))
        assert h.plain(1) == ("wrapped", (h, 1))
    assert dict(vars(Holder)) == before
    assert all(vars(Holder)[n] is before[n] for n in names)


def test_inherited_attributes_are_deleted_again():
    before = list(vars(Heir))
    with patching.attributes([(Heir, "plain", wrapper)]):
        assert Heir().plain(1)[0] == "wrapped"
        assert Holder().plain(1)[0] != "wrapped"
    assert list(vars(Heir)) == before
    tensor = list(vars(torch.Tensor))
    with patching.attributes([(torch.Tensor, "__add__", wrapper)]):
        assert (torch.ones(1) + 1)[0] == "wrapped"
    assert list(vars(torch.Tensor)) == tensor and (torch.ones(1) + 1).item() == 2


def test_base_and_heir_at_once():
    with patching.attributes([(Holder, "still", wrapper)]):
        with patching.attributes([(Heir, "still", lambda o: lambda x: "heir")]):
            assert (Heir.still(1), Holder.still(1)) == ("heir", ("wrapped", 1))
        assert Heir.still(1) == ("wrapped", 1)
    assert "still" not in vars(Heir) and Heir.still(1) == 1


def test_what_is_imported_meanwhile_has_the_originals_afterwards(tmp_path, monkeypatch):
    (tmp_path / "hx_late.py").write_text(
        "from torch import from_numpy as f\nfrom math import floor\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    raw, before = torch.from_numpy, types.ModuleType("hx_before")
    before.f = raw
    monkeypatch.setitem(sys.modules, "hx_before", before)
    try:
        with patching.attributes([(torch, "from_numpy", wrapper)]):
            late = importlib.import_module("hx_late")
            array = torch.ones(1).numpy()
            assert late.f(array)[0] == torch.from_numpy(array)[0] == "wrapped"
            assert before.f is raw  # places that nobody named are left alone
        assert late.f is torch.from_numpy is raw and late.floor is math.floor
    finally:
        sys.modules.pop("hx_late", None)


def test_a_bare_world_is_that_of_this_thread_alone():
    raw = torch.from_numpy
    with patching.attributes([(torch, "from_numpy", wrapper)]):
        with patching.bare():
            assert torch.from_numpy is raw
        assert torch.from_numpy is not raw
        inside, done = threading.Event(), threading.Event()

        def other():
            with patching.attributes([(torch, "from_numpy", wrapper)]):
                inside.set()
                done.wait(10)

        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(10)
        with patching.bare():
            assert torch.from_numpy is not raw  # the other thread needs it
        done.set()
        thread.join()
    assert torch.from_numpy is raw


def test_scripted_functions_and_instances():
    scripted = torch.jit.script(other_scripted)
    cls = torch.jit.ScriptFunction
    raw = vars(cls)["__call__"]
    with patching.attributes([(cls, "__call__", wrapper)]):
        assert scripted(torch.ones(1))[0] == "wrapped"
    assert vars(cls)["__call__"] is raw and scripted(torch.ones(1)).item() == 2
    module = Base()
    with patching.attributes([(module, "forward", wrapper)]):
        assert module(1) == ("wrapped", 2)
    assert "forward" not in vars(module) and module(1) == 2


def other_scripted(x):
    return x + 1


def test_attributes_belong_to_a_thread_and_share():
    seen, inside, leave = [], threading.Event(), threading.Event()
    raw = vars(Holder)["still"]

    def second():
        seen.append(Holder.still(1))
        with patching.attributes([(Holder, "still", lambda o: lambda x: "second")]):
            seen.append(Holder.still(1))
            inside.set()
            leave.wait(5)
            seen.append(Holder.still(1))

    with patching.attributes([(Holder, "still", wrapper)]):
        thread = threading.Thread(target=second)
        thread.start()
        assert inside.wait(5)
        assert Holder.still(1) == ("wrapped", 1)
    assert Holder.still(1) == 1
    leave.set()
    thread.join()
    assert seen == [1, "second", "second"] and vars(Holder)["still"] is raw
    assert not patching._slots


def test_attributes_that_cannot_be_replaced_roll_back():
    raw = vars(Holder)["still"]
    for place in [(list, "append"), (Holder, "nothing"), (3, "real"), (sys, "maxsize")]:
        with (
            pytest.raises(TargetError),
            patching.attributes([(Holder, "still", wrapper), (*place, wrapper)]),
        ):
            pass
        assert vars(Holder)["still"] is raw and not patching._slots
    with pytest.warns(RuntimeWarning, match=r"Holder\.still was replaced"):
        with patching.attributes([(Holder, "still", wrapper)]):
            Holder.still = theirs = staticmethod(other)
        assert vars(Holder)["still"] is theirs
    Holder.still = raw


def test_a_hooked_call_is_cheap():
    def bare(x):
        return x

    with patching.hooks({bare: lambda original, args, kwargs: args[0]}):
        assert steps(bare, 1) <= 3  # what stands in its place, what finds the hook, the hook


def test_no_warning_is_given_when_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with patching.hooks({plain: tag, simple: tag}):
            simple(1)


def test_what_is_read_of_range_meanwhile_is_its_own():
    """As libraries do that are first imported while a model runs: torch's own compiler is one."""
    found = []
    names = ("__getitem__", "__eq__", "__len__", "index", "__name__", "__doc__")

    class Counts(nn.Module):
        def forward(self, x):
            found.append([getattr(range, name) for name in names])
            assert isinstance(range(2), range)
            return x + range.__getitem__(range(5), 2)

    hx.export(Counts(), torch.ones(2), dynamic={"x": [0]})
    assert found[0] == [getattr(range, name) for name in names]


def test_a_function_of_pytorch_with_other_defaults_than_when_it_was_hooked_before(monkeypatch):
    x, glu = torch.randn(4, 6), torch.nn.functional.glu
    by_default = {glu: lambda original, args, kwargs: original(args[0])}
    with patching.hooks(by_default):
        assert glu(x).shape == (4, 3)
    monkeypatch.setattr(glu, "__defaults__", (0,))
    with patching.hooks(by_default):
        assert glu(x).shape == (2, 6)

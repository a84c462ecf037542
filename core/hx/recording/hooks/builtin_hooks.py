"""Builtins and functions of `math` that would make plain numbers of sizes, in forms that keep them.

Those that cannot keep it (`math.gamma`, a `range`) report that it leaves. They are replaced where
they are defined, and wherever a name of another module, a class or a variable holds them.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ...budget import BUDGET
from ...graph.op import Op
from ...ir.sizes import dims, integer_functions, size_lists
from ...ir.sizes.bounds import never_negative
from ...ir.sizes.departures import leaving, listening, own_number
from ...torchworld import patching, stored_callables
from ...torchworld.model_packages import is_guest
from ..reads.tensor_sizes import open_shape
from ..recording import Recording
from . import reductions
from .reductions import any_size

Wrap = Callable[[Callable], Callable]
Place = tuple[Any, str, Wrap]
# The modules of scipy with functions that look up a length that is fast to transform.
_OF_LENGTHS = ("scipy.fft", "scipy.fft._helper", "scipy.fft._pocketfft.helper", "scipy.fftpack",
               "scipy.fftpack._helper", "scipy.fftpack.helper")  # fmt: skip
_LENGTHS = ("next_fast_len", "prev_fast_len", "good_size", "prev_good_size")
_LEFT_ALONE = {"floor", "ceil", "trunc", "isfinite", "isnan", "isinf", "fsum", "sumprod", "dist"}


def places(recording: Recording, others: Iterable[Place]) -> list[Place]:
    """Functions to replace: owner, name, and the maker of what replaces each.

    They, and those of `others`, are replaced under other names, too: `from math import sqrt`.
    """
    # Keyed by the originals: another export, around this one or beside it, may have
    # replaced them already.
    wanted: dict[int, Wrap] = {id(len): _of_len(recording), id(range): _of_range(recording)}
    wanted[id(min)] = reductions.of_pick(recording, "ReduceMin", dims.smaller)
    wanted[id(max)] = reductions.of_pick(recording, "ReduceMax", dims.larger)
    wanted[id(sum)] = reductions.of_sum(recording)
    wanted[id(pow)] = _of_power
    found: list[Place] = [
        (builtins, f.__name__, wanted[id(f)]) for f in (len, min, max, sum, range, pow)
    ]
    if recording.switches.numbered:
        wanted[id(enumerate)] = wrap = _of_enumerate(recording)
        found.append((builtins, "enumerate", wrap))
    for name, function in list(vars(math).items()):
        if callable(function) and name not in _LEFT_ALONE and not name.startswith("_"):
            wanted[id(patching.behind(function))] = wrap = _MATH.get(name) or _telling(name)
            found.append((math, name, wrap))
    for owner, name, wrap in others:
        wanted[id(patching.behind(getattr(owner, name)))] = wrap
        found.append((owner, name, wrap))
    for owner, name, function in _lengths():
        wanted[id(patching.behind(function))] = wrap = _telling_length(name)
        found.append((owner, name, wrap))
    found += [
        (torch, name, _of_rounding(patching.behind(getattr(math, name))))
        for name in ("ceil", "floor")
    ]
    if hasattr(torch._C, "_infer_size"):
        found.append((torch._C, "_infer_size", _of_broadcast))
    for module in _modules(recording):
        for name, value in list(vars(module).items()):
            known_wrap = wanted.get(id(patching.behind(value)))
            if known_wrap is not None:
                found.append((module, name, known_wrap))
    there = {(id(owner), name) for owner, name, _ in found}
    kinds = {type(patching.behind(getattr(owner, name))) for owner, name, _ in found}
    for owner, name, value in stored_callables.held(
        *recording.model.searched(), _Behind(wanted, kinds)
    ):
        if (id(owner), name) not in there:
            found.append((owner, name, wanted[id(patching.behind(value))]))
    return found


class _Behind(stored_callables.Among):
    """A test for being one of some functions, or a replacement for one made by another export."""

    def __init__(self, ids: Iterable[int], kinds: Iterable[type]) -> None:
        super().__init__(())
        self._ids = frozenset(ids)
        self._kinds = {*kinds, types.FunctionType}  # other objects may do anything when asked

    def __call__(self, x: Any) -> bool:
        return type(x) in self._kinds and id(patching.behind(x)) in self._ids


def _modules(recording: Recording) -> list[types.ModuleType]:
    """The Python modules, other than torch's own, in which the model's code lies."""
    owners: set[str] = {getattr(recording.model.function, "__module__", None) or ""}
    for kind in {type(module) for _, module in recording.model.modules}:
        owners.update(c.__module__ for c in kind.__mro__)
    return [
        sys.modules[name]
        for name in sorted(owners)
        if name in sys.modules
        and (is_guest(name) or name.partition(".")[0] not in ("torch", "builtins", "math"))
    ]


def _of_len(recording: Recording) -> Wrap:
    def wrap(original):
        def length(x, /):
            if type(x) is size_lists.Whole and x.length is not None and x.same():
                return x.length
            if isinstance(x, torch.Tensor) and not recording.running.busy:
                sizes = _sizes(recording, x)
                if sizes:
                    return sizes[0]
            if not recording.running.busy:
                found = _of_container(recording, x)
                if found is not None:
                    return found
            own = getattr(type(x), "__len__", None)
            if type(own) is types.FunctionType:  # the builtin makes its result plain
                found = own_number(own, x)
                if type(found) is dims.Dim or (type(found) is int and found >= 0):
                    return found
            return original(x)

        return length

    return wrap


def _of_container(recording: Recording, x: Any) -> Any:
    """The length of a list of pieces, or of the results of rounds; None for anything else."""
    live, lengths = recording.memory.live, recording.builder.lengths
    found = recording.memory.lengths.of(live, x)
    if found is None and type(x) is list and lengths is not None:
        return lengths.of_list(live, x)
    return found


def _sizes(recording: Recording, tensor: torch.Tensor) -> Any:
    """The sizes of a tensor as a door would give them; this is no call of the model's."""
    recording.running.busy = True
    try:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return open_shape(recording, tensor)
    finally:
        recording.running.busy = False


def _of_power(original: Callable) -> Callable:
    """Compute powers with sizes: Python never asks the exponent or the modulus."""

    def power(base, exp, mod=None):
        if mod is not None and any_size((base, exp, mod)):
            return integer_functions.power_modulo(base, exp, mod)
        return original(base, exp, mod)

    return power


def _of_range(recording: Recording) -> Wrap:
    def wrap(original):
        def counted(*args):
            args = tuple(map(_number, args))
            if not any_size(args):
                return original(*args)
            found = size_lists.counted(*args)
            return (
                size_lists.numbered(found, Op(recording.builder))
                if recording.switches.numbered
                else found
            )

        return counted

    return wrap


def _of_enumerate(recording: Recording) -> Wrap:
    """`enumerate` over something as long as a size, with numbers that the graph has."""
    length = _of_len(recording)(len)

    def wrap(original):
        def numbered(items, start=0):
            several = [*items] if type(items) is tuple else items
            many = length(several) if isinstance(several, (torch.Tensor, list)) else None
            if type(many) is not dims.Dim:
                return original(items, start)
            return zip(
                size_lists.numbered(size_lists.counted(start, start + many), Op(recording.builder)),
                items,
            )

        return numbered

    return wrap


def _number(x: Any) -> Any:
    """The number in a tensor by `.item()`, which is followed; `range` would ask for a plain one."""
    whole = isinstance(x, torch.Tensor) and not (x.is_floating_point() or x.is_complex())
    return x.item() if whole and x.numel() == 1 else x


def _telling(name: str) -> Wrap:
    def wrap(original):
        def telling(*args, **kwargs):
            if any_size(args):
                asked = dims.asked(original, *args)
                leaving("float", f"math.{name}({_spelled(args)})", asked)
            return original(*args, **kwargs)

        return telling

    return wrap


def _lengths() -> Iterator[tuple[types.ModuleType, str, Callable]]:
    """Hook library functions that look up a length, where they are imported: C reads a size as an
    int without any notice.
    """
    for owner in filter(None, map(sys.modules.get, _OF_LENGTHS)):
        for name in _LENGTHS:
            function = vars(owner).get(name)
            if callable(function):
                yield owner, name, function


def _telling_length(name: str) -> Wrap:
    def wrap(original):
        def telling(*args, **kwargs):
            given = [*args, *kwargs.values()]
            if not any_size(given):
                return original(*args, **kwargs)
            called = _Named(original, tuple(kwargs))
            leaving("int", f"{name}({_spelled(given)})", dims.asked(called, *given))
            return called(*map(dims.plain, given))

        return telling

    return wrap


@dataclass(frozen=True)
class _Named:
    """A function whose last arguments are passed by name."""

    function: Callable
    names: tuple[str, ...]

    def __call__(self, *args: Any) -> Any:
        count = len(args) - len(self.names)
        return self.function(*args[:count], **dict(zip(self.names, args[count:])))


def _spelled(args: Iterable[Any]) -> str:
    return ", ".join(map(format, map(dims.spelled, args)))


def _carried(form: Callable[..., Any]) -> Wrap:
    """`form(original, *args)` where a size is among the arguments."""

    def wrap(original):
        def carried(*args):
            return form(original, *args) if any_size(args) else original(*args)

        return carried

    return wrap


def _log(original, x, base=None):
    natural = dims.function("flog", x, math_log(float(dims.plain(x))))
    if base is None:
        return natural
    return natural / (_log(original, base) if dims.is_dynamic(base) else math_log(base))


def _angle(original, y, x):
    """Twice the angle at half its tangent, which is finite also where x is 0."""
    one, other = (x, y) if dims.is_dynamic(x) else (y, x)  # a float would not ask the size
    return 2.0 * math.atan(y / ((one * one + other * other) ** 0.5 + x))


def _cube_root(original, x):
    """A third power, and one step nearer: exact for cubes."""
    root = x ** (1 / 3)
    square = root * root
    return root - (square * root - x) / (3.0 * square)


def of_all(combine: Callable) -> Wrap:
    """One number of all in a list, as `np.prod` and `np.max` make it."""

    def wrap(original):
        def one(*args, **kwargs):
            values = args[0] if len(args) == 1 else kwargs.get("a") if not args else None
            listed = list(values) if isinstance(values, (tuple, list)) else []
            if kwargs.keys() <= {"start", "a"} and any(map(dims.is_dynamic, listed)):
                start = [kwargs["start"]] if "start" in kwargs else []
                return functools.reduce(combine, start + listed)
            return original(*args, **kwargs)

        return one

    return wrap


def _of_rounding(whole: Callable) -> Wrap:
    """Round sizes: libraries treat a size as a tensor when PyTorch traces, and round it as one."""

    def wrap(original):
        def rounded(*args, **kwargs):
            number = args and isinstance(args[0], (int, float))
            return whole(args[0]) if number else original(*args, **kwargs)

        return rounded

    return wrap


def _of_broadcast(original: Callable) -> Callable:
    """The common shape of two, as distributions ask for it."""

    def common(a, b):
        if any_size((*a, *b)):
            return torch.Size(torch.broadcast_shapes(a, b))
        return original(a, b)

    return common


def _counted(name: str, form: Callable[..., Any]) -> Wrap:
    """Count with `form`, where the size is the first argument; else report that it leaves."""

    def wrap(original):
        telling = _telling(name)(original)

        def counted(n, *of):
            few = all(type(k) is int and 0 <= k <= BUDGET.objects.keys for k in of)
            followed = few and type(n) is dims.Dim and never_negative(n.poly)
            found = form(n, *of) if followed else None
            return telling(n, *of) if found is None else found

        return counted

    return wrap


def _factorial(n: dims.Dim) -> Any:
    """Look it up in a table of all that are integers of 64 bits."""
    table, listener = [math.factorial(k) for k in range(21)], listening()
    within = dims.plain(n) < len(table) and listener is not None
    return listener.pick(table, n) if within and listener is not None else None


def _function(kind: str) -> Wrap:
    return _carried(lambda original, x: dims.function(kind, x, original(dims.plain(x))))


math_log = math.log  # the original, outside of a recording
_MATH: dict[str, Wrap] = {
    "gcd": _carried(lambda original, *args: integer_functions.common_divisor(*args)),
    "lcm": _carried(
        lambda original, *args: functools.reduce(integer_functions.common_multiple, args)
    ),
    "sqrt": _carried(lambda original, x: x**0.5),
    "pow": _carried(lambda original, x, y: (x * 1.0) ** y),
    "fmod": _carried(lambda original, x, y: x * 1.0 - math.trunc(x / y) * y),
    "remainder": _carried(lambda original, x, y: x - round(x / y) * y * 1.0),
    "modf": _carried(lambda original, x: (x - math.trunc(x), math.trunc(x) * 1.0)),
    "comb": _counted("comb", lambda n, k: integer_functions.combinations(n, k)),
    "perm": _counted("perm", lambda n, k: integer_functions.combinations(n, k, ordered=True)),
    "factorial": _counted("factorial", _factorial),
    "fabs": _carried(lambda original, x: abs(x * 1.0)),
    "exp": _function("fexp"),
    "exp2": _carried(lambda original, x: 2.0 ** (x * 1.0)),
    "expm1": _carried(lambda original, x: math.exp(x) - 1),
    "sinh": _carried(lambda original, x: (math.exp(x) - math.exp(-x)) / 2),
    "cosh": _carried(lambda original, x: (math.exp(x) + math.exp(-x)) / 2),
    "sin": _function("fsin"),
    "cos": _function("fcos"),
    "tan": _carried(lambda original, x: math.sin(x) / math.cos(x)),
    "atan": _function("fatan"),
    "asin": _carried(lambda original, x: math.atan2(x, (1 - x * x) ** 0.5)),
    "acos": _carried(lambda original, x: math.atan2((1 - x * x) ** 0.5, x)),
    "atan2": _carried(_angle),
    "asinh": _carried(lambda original, x: _log(original, x + (x * x + 1.0) ** 0.5)),
    "acosh": _carried(lambda original, x: _log(original, x + (x * x - 1.0) ** 0.5)),
    "atanh": _carried(lambda original, x: _log(original, (1 + x) / (1 - x)) / 2),
    "erf": _function("ferf"),
    "erfc": _carried(lambda original, x: 1 - math.erf(x)),
    "cbrt": _carried(_cube_root),
    "tanh": _function("ftanh"),
    "hypot": _carried(lambda original, *each: sum(x * x for x in each) ** 0.5),
    "degrees": _carried(lambda original, x: x * (180 / math.pi)),
    "radians": _carried(lambda original, x: x * (math.pi / 180)),
    "log": _carried(_log),
    "log2": _carried(lambda original, x: _log(original, x, 2.0)),
    # Exact at powers of ten; dividing by math.log(10) gives 2.9999999999999996 for 1000.
    "log10": _carried(lambda original, x: _log(original, x) * math.log10(math.e)),
    "log1p": _carried(lambda original, x: _log(original, x + 1)),
    "isqrt": _carried(lambda original, x: dims.DimFloat.whole(x**0.5, "floor")),
    "prod": of_all(operator.mul),
}

"""Sizes that are given to compiled code, which reads them unnoticed.

    json.dumps(n)       struct.pack("i", n)       bytes(n)       rows.pop(n)       numbers.append(n)

Compiled code takes the number out of a size without asking it. So a call that neither asked for
anything nor returned a size has used the number in a way that nobody sees, and is reported. The same
holds for operators (`timedelta * n`), items (`queue[n]`) and what is stored in an array of numbers.
"""

from __future__ import annotations

import ast
import builtins
import collections
import datetime
import decimal
import functools
import io
import itertools
import random
import struct
import sys
import types
from array import array
from collections.abc import Collection, Container, Iterable, Iterator
from typing import Any

import numpy
import torch

from ...ir.sizes import dims
from ...ir.sizes.comparisons import Asked, content
from ...ir.sizes.departures import count, lasts, leaving
from ...ir.sizes.size_lists import Whole
from ...ir.sizes.size_texts import SizeText, all_plain
from . import lookups
from .followed_functions import FOLLOWED
from .iterations import combined, follow

_COMPILED = (  # kinds of functions
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)
# These modules pass on what they are given, ask it like any Python code, or write it for people.
_PASSES_ON = frozenset(
    """abc asyncio builtins concurrent contextlib contextvars copy dataclasses enum inspect logging
    numbers queue threading types typing unittest warnings weakref __future__""".split()
)
_ASKS = frozenset({"bisect", "functools", "heapq", "operator"})  # also in their Python code
# Builtins that do not look at what they are given, or that replacements stand for.
_BLIND = frozenset(
    """callable classmethod delattr dict dir filter frozenset getattr globals hasattr id isfinite
    isinf isinstance isnan issubclass iter len list locals max min next property range reversed
    set setattr staticmethod sum super tuple type vars zip""".split()
)
# Methods of containers that keep their items as they are, or compare them as Python does.
_STORES = frozenset(
    """append appendleft extend extendleft add update setdefault copy clear discard popitem fromkeys
    send throw reverse __init__ __new__ __setattr__""".split()
)
_CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque, types.GeneratorType)
_CACHED = functools._lru_cache_wrapper  # asks for a hash
# Functions that call others, by which items are read.
_CALLS = (map, filter, functools.reduce, itertools.starmap)
_RUNS = (eval, exec)  # code that is not looked at
_PLAIN = (map, filter, enumerate)  # keep the items that they are given as they are
_SORTS = frozenset(
    """sorted sort bisect bisect_left bisect_right insort insort_left insort_right heapify heappush
    heappop heappushpop heapreplace nlargest nsmallest merge""".split()
)
_LOOKS_UP = frozenset("add discard setdefault update".split())  # of those that store
_SEARCHES = frozenset("index count remove contains __contains__ countOf indexOf eq ne".split())


def _of_types(*kinds: type) -> frozenset[str]:
    """The names of compiled methods of types."""
    owners = {owner for kind in kinds for owner in kind.__mro__ if owner is not object}
    return frozenset(
        name
        for owner in owners
        for name, thing in vars(owner).items()
        if isinstance(thing, _COMPILED) and not name.startswith("_")
    )


# Methods of compiled types, and those of a number that its operators call.
METHODS = frozenset().union(
    _of_types(
        str, bytes, bytearray, list, tuple, dict, set, int, float, memoryview, slice, array,
        collections.deque, datetime.datetime, datetime.timedelta, decimal.Decimal, random.Random,
        io.StringIO, io.BytesIO, struct.Struct, numpy.ndarray, numpy.random.Generator,
        numpy.random.RandomState, torch.Generator,
    ) - {"items", "keys", "values"},
    vars(int).keys() - {"__getattribute__"},
    "__getitem__ __setitem__ __setattr__ substitute warn".split(),
)  # fmt: skip

_OF_TENSORS = frozenset({*dir(torch.Tensor), *dir(torch.nn.Module)})


def may_read(node: ast.expr, local: set[str], readers: Container[str]) -> bool:
    """Return True if the function that is called may be a compiled one."""
    if isinstance(node, ast.Name):
        return node.id in local or node.id in readers
    if not isinstance(node, ast.Attribute):
        return not isinstance(node, ast.Lambda)
    root: ast.expr = node
    while isinstance(root, (ast.Attribute, ast.Call)):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    if isinstance(root, ast.Name):
        if root.id not in local and root.id in readers:
            return True
        made = root.id in local or root.id.startswith("_hx_")  # by a call that is rewritten
        if root.id in ("self", "cls") or not made:
            return node.attr in METHODS
    return node.attr in METHODS or node.attr not in _OF_TENSORS


def names(code: types.CodeType, space: dict[str, Any]) -> frozenset[str]:
    """The names in a function that stand for compiled functions, or for modules that hold them."""
    found = set()
    for name in code.co_names:
        thing = space.get(name, getattr(builtins, name, None))
        followed = id(thing) in FOLLOWED
        if followed or _is_module(thing) or (callable(thing) and reads(thing)):
            found.add(name)
    return frozenset(found)


def imported(made: ast.AST) -> set[str]:
    """The names that a function imports from Python's library itself."""
    found = set()
    for node in ast.walk(made):
        if isinstance(node, ast.Import):
            found |= {e.asname or e.name for e in node.names if _of_library(e.name)}
        elif isinstance(node, ast.ImportFrom) and _of_library(node.module or ""):
            found |= {e.asname or e.name for e in node.names}
    return found


def _is_module(thing: Any) -> bool:
    return isinstance(thing, types.ModuleType) and _of_library(thing.__name__)


@functools.lru_cache(maxsize=1024)
def _of_library(module: str) -> bool:
    """Return True for NumPy and for standard modules whose functions may make a size a plain number."""
    root = module.partition(".")[0]
    public = root.lstrip("_")  # `_functools` is what `functools` is made of
    if root == "numpy":
        return True
    of_python = not sys.stdlib_module_names.isdisjoint({root, public})
    return of_python and _PASSES_ON.isdisjoint({root, public})


def reads(function: Any) -> bool:
    """Return True for a function that may read the number of a size without asking it."""
    kind = type(function)
    if kind is types.FunctionType or kind is types.MethodType:
        stands_in = getattr(function, "__hx_behind__", None) is not None
        home = str(function.__module__)  # what `collections` has in Python asks, as a ChainMap
        return not stands_in and home != "collections" and _of_library(home)
    if isinstance(function, functools.partial):
        return reads(function.func)
    if isinstance(function, type):
        return _class_reads(function)
    if kind not in _COMPILED:  # an object that can be called
        in_python = isinstance(kind.__call__, types.FunctionType)
        return not in_python and _root(kind) != "torch" and kind is not _CACHED
    owner = getattr(function, "__objclass__", None) or getattr(function, "__self__", None)
    name = function.__name__
    if owner is not None and not isinstance(owner, types.ModuleType):
        return _method_reads(owner, name)
    home = str(function.__module__)
    if home in ("builtins", "math"):
        return name not in _BLIND
    return home.partition(".")[0] != "torch" and (_of_library(home) or not _of_python(home))


def _root(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


def _of_python(home: str) -> bool:
    return home.partition(".")[0].lstrip("_") in sys.stdlib_module_names


def _class_reads(kind: type) -> bool:
    if kind in _CALLS:
        return True
    if issubclass(kind, BaseException) or _root(kind) == "torch":
        return False
    if _of_library(kind.__module__):
        return True
    makers = (type(kind).__call__, kind.__init__, kind.__new__)
    if any(isinstance(each, types.FunctionType) for each in makers):
        return False
    if kind.__module__ == "builtins":
        return kind.__name__ not in _BLIND
    of_object = kind.__init__ is object.__init__ and kind.__new__ is object.__new__
    return not of_object and not _of_python(kind.__module__)


def _method_reads(owner: Any, name: str) -> bool:
    kind = owner if isinstance(owner, type) else type(owner)
    if kind is object:
        return name in ("__format__", "__str__")
    if kind is type or issubclass(kind, (dims.Scalar, Whole, SizeText, torch.Tensor)):
        return False
    if issubclass(kind, _CONTAINERS) and name in _STORES:
        return name in _LOOKS_UP and lookups.has_sized_key(owner)
    if kind.__module__ == "builtins" or _of_python(kind.__module__):
        return kind.__module__ == "builtins" or _of_library(kind.__module__)
    if _root(kind) == "torch":
        return issubclass(kind, torch.Generator)
    return kind is numpy.ndarray or not issubclass(kind, numpy.ndarray)


def passed(function: Any) -> Any:
    """The function that is called: watched, if it may read the number of a size."""
    if function is None:
        return None
    followed = FOLLOWED.get(id(function))
    if followed is not None:
        return followed
    return functools.partial(handed, function) if reads(function) else function


def handed(function: Any, *args: Any, **named: Any) -> Any:
    """function(*args, **named)"""
    if _is_one_of(function, _CALLS) and args:
        args = (passed(args[0]), *args[1:])
    name = getattr(function, "__qualname__", "") or type(function).__name__
    short, home = name.rpartition(".")[2], _home(function)
    given = _read_by(function, short, args, named)
    sizes = [*_sizes_in(given, 0 if home == "itertools" or _is_one_of(function, _PLAIN) else 3)]
    caller = str(sys._getframe(1).f_globals.get("__name__"))
    if not sizes or (_of_python(caller) and _of_library(caller)):  # told where the model calls that
        return _called(function, args, named)
    runs = _is_one_of(function, _RUNS)
    before = count(not runs)
    try:
        result = _called(function, args, named)
    except (
        Exception
    ) as problem:  # any kind: it is told, and raised again or repeated with plain ints
        if count(not runs) != before or short in _SORTS or _is_one_of(function, _CALLS):
            raise
        _tell(sizes, f"given to {name}()")
        if not isinstance(problem, (TypeError, ValueError)):
            raise
        return _called(function, all_plain(args), all_plain(named))  # marshal takes no other ints
    if short in _SORTS or short in _SEARCHES:
        _beside_floats(short, sizes, given)
    # Python's own code may ask first, and read the number all the same.
    of_python = isinstance(function, (types.FunctionType, types.MethodType)) and home != "numpy"
    asked = count(not runs) != before and (home in _ASKS or not of_python)
    if not asked and short not in _SORTS and not _carries(result):
        _tell(sizes, f"given to {name}()")
    return result


def _home(function: Any) -> str:
    """The module of Python's library, or the package, that a function is of."""
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).partition(".")[0].lstrip("_")


def _is_one_of(function: Any, several: Iterable[Any]) -> bool:
    return any(function is each for each in several)


def _read_by(function: Any, name: str, args: tuple, named: dict[str, Any]) -> list[Any]:
    """The arguments that a function may read."""
    if function is print and named.get("file") in (None, sys.stdout, sys.stderr):
        return []  # for people
    given = [*args, *named.values()]
    owner = getattr(function, "__self__", None)
    if function is itertools.repeat or (name == "insert" and isinstance(owner, _CONTAINERS)):
        return given[1:] if function is itertools.repeat else given[:1]  # the other is kept
    if isinstance(function, functools.partial):
        given += [*function.args, *function.keywords.values()]
    if isinstance(owner, _CONTAINERS):
        if name in _SORTS or name in _SEARCHES or lookups.has_sized_key(owner):
            given.append(owner)
    return given


def _called(function: Any, args: tuple, named: dict[str, Any]) -> Any:
    """Call a function; one that takes the variables of its caller gets those of the model."""
    if _is_one_of(function, _RUNS) and len(args) == 1 and not named:
        frame: Any = sys._getframe(2)
        return function(*args, frame.f_globals, frame.f_locals)
    many = combined(function, args)
    if many is None:
        return function(*args, **named)
    made = function(*(follow(iter(each)) for each in args), **named)
    lasts(made, many)
    return made


def _carries(result: Any) -> bool:
    """Return True if a result remembers sizes, or will be asked for them."""
    if isinstance(result, (torch.Tensor, functools.partial, map, filter)):
        return True
    followed = isinstance(result, numpy.ndarray) and type(result) is not numpy.ndarray
    return followed or any(True for _ in _sizes_in([result]))


def _beside_floats(name: str, sizes: Iterable[Any], given: Iterable[Any]) -> None:
    """Ask about sizes what compiled code asked about the floats that it compared with them."""
    for number in {n for n in _numbers(given) if type(n) is float}:
        for size in sizes:
            if type(size) is dims.Dim:
                bool(size < number if name in _SORTS else size == number)


def _numbers(items: Iterable[Any], depth: int = 2) -> Iterator[Any]:
    for x in items:
        if depth and isinstance(x, (list, tuple, collections.deque, array)):
            yield from _numbers(list.__iter__(x) if isinstance(x, list) else x, depth - 1)
        else:
            yield x


def _keeps_numbers(container: Any) -> bool:
    """Return True for a container that keeps numbers, not objects."""
    kind = type(container)
    if kind is numpy.ndarray:
        return container.dtype.kind != "O"
    return kind in (array, bytearray, memoryview) or _root(type(kind)) == "_ctypes"


def tell_stored(container: Any, number: Any) -> None:
    """Report a size that is stored where only its number fits."""
    sizes = [*_sizes_in([number])] if _keeps_numbers(container) else []
    _tell(sizes, f"stored in a {type(container).__name__}")


def tell_set(owner: Any, name: str, value: Any) -> None:
    """Report a size that is given to an attribute which keeps its number, as one of a C structure."""
    if not dims.is_dynamic(value) and type(value) is not SizeText:
        return
    known = next((vars(kind)[name] for kind in type(owner).__mro__ if name in vars(kind)), None)
    keeps = isinstance(known, (types.MemberDescriptorType, types.FunctionType, property))
    if known is not None and not keeps and hasattr(type(known), "__set__"):
        _tell([value], f"given to {type(owner).__name__}.{name}")


def _tell(sizes: Collection[Any], used: str) -> None:
    """Report that compiled code reads sizes."""
    if sizes:
        told = ", ".join(str(dims.spelled(x)) for x in sizes)
        leaving("read", f"{told} is {used}", *_questions(sizes))


def _questions(sizes: Iterable[Any]) -> list[Asked]:
    found = list[Asked]()
    for x in sizes:
        if type(x) is SizeText:
            found += [Asked(content, (x.formula,)), Asked(content, (x.formula,), guessed=True)]
        else:
            found += dims.goes_on(x)
    return found


def _sizes_in(items: Iterable[Any], depth: int = 3) -> Iterator[Any]:
    """Yield the sizes, and texts with sizes, in nested containers."""
    for x in items:
        if dims.is_dynamic(x) or type(x) is SizeText:
            yield x
        elif type(x) is Whole:
            if x.length is not None and dims.is_dynamic(x.length):
                yield x.length
        elif not depth:
            continue
        elif type(x) is slice:
            yield from _sizes_in([x.start, x.stop, x.step], 0)
        elif isinstance(x, dict):
            yield from _sizes_in([*x.keys(), *x.values()], depth - 1)
        elif isinstance(x, (list, tuple, set, frozenset, collections.deque)):
            yield from _sizes_in([*x], depth - 1)

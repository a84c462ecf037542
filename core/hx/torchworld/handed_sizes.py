"""Sizes that are given to functions of Python's own library: compiled code reads them unnoticed.

    json.dumps(n)       struct.pack("i", n)       bytes(n)       rows.pop(n)       random.Random(n)

Compiled code takes the number out of a size without asking it. So a call that neither asked for
anything nor returned a size has used the number in a way that nobody sees, and is reported.
"""

from __future__ import annotations

import ast
import builtins
import collections
import sys
import types
from collections.abc import Iterable
from typing import Any

import torch

from ..ir.sizes import dims
from ..ir.sizes.comparisons import Asked, content
from ..ir.sizes.departures import count, leaving
from ..ir.sizes.size_lists import Whole
from ..ir.sizes.size_texts import SizeText

_COMPILED = (  # kinds of functions
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
)
BUILTINS = frozenset({"ascii", "bytearray", "bin", "bytes", "chr", "complex", "eval", "exec", "hex",
                      "memoryview", "oct", "slice"})  # fmt: skip
# These pass on what they are given, ask it like any Python code, or write it for people to read.
_PASSES_ON = frozenset(
    """abc builtins contextlib copy dataclasses enum functools heapq bisect inspect logging math
    numbers operator queue types typing unittest warnings weakref __future__""".split()
)
_OF_OPERATOR = frozenset({"index", "itemgetter", "length_hint"})
_STORES = frozenset(
    "append appendleft extend extendleft add update setdefault copy clear discard remove".split()
)
# Methods of Python's own types that read a number.
METHODS = frozenset(
    """center expandtabs format_map indices insert ljust manual_seed pack pack_into pop read readline
    rjust rotate seed seek substitute truncate update write zfill __add__ __getitem__ __index__
    __mul__ __sub__""".split()
)


def names(code: types.CodeType, space: dict[str, Any]) -> frozenset[str]:
    """The names in a function that stand for such functions, or for modules that hold them."""
    found = set()
    for name in code.co_names:
        thing = space.get(name, getattr(builtins, name, None))
        if _is_module(thing) or (callable(thing) and _reads(thing)):
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
    return isinstance(thing, types.ModuleType) and (
        thing.__name__ == "numpy" or _of_library(thing.__name__)
    )


def _of_library(module: str) -> bool:
    """Return True for a module of Python's library whose functions may read a number."""
    root = module.partition(".")[0]
    if module.startswith("numpy.random"):
        return True
    public = root.lstrip("_")  # `_functools` is what `functools` is made of
    of_python = not sys.stdlib_module_names.isdisjoint({root, public})
    return of_python and (_PASSES_ON.isdisjoint({root, public}) or public == "operator")


def _reads(function: Any) -> bool:
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return _method_reads(owner, name)
    home = str(getattr(function, "__module__", None))
    if home == "builtins":
        return name in BUILTINS
    if home.lstrip("_").partition(".")[0] == "operator":
        return name in _OF_OPERATOR
    return _of_library(home) and isinstance(function, (*_COMPILED, types.FunctionType, type))


def _method_reads(owner: Any, name: str) -> bool:
    if isinstance(owner, torch.Generator):
        return True
    kind = owner if isinstance(owner, type) else type(owner)
    if issubclass(kind, (dims.Scalar, Whole, SizeText)):
        return False
    of_builtins = kind.__module__ == "builtins" and (name in METHODS or kind is int)
    return of_builtins or (_of_library(kind.__module__) and name not in _STORES)


def handed(function: Any, *args: Any, **named: Any) -> Any:
    """function(*args, **named)"""
    goes_over = getattr(function, "__module__", "") == "itertools"  # items as they are
    sizes = [*_sizes_in([*args, *named.values()], 0 if goes_over else 3)]
    if not sizes or not _reads(function):
        return function(*args, **named)
    before = count()
    result = function(*args, **named)
    # Python's own code may ask first, and read the number all the same.
    asked = count() != before and isinstance(function, (*_COMPILED, type))
    carried = isinstance(result, torch.Tensor) or any(True for _ in _sizes_in([result]))
    if not asked and not carried:
        name = getattr(function, "__qualname__", "") or type(function).__name__
        told = ", ".join(str(dims.spelled(x)) for x in sizes)
        leaving("read", f"{told} is given to {name}()", *_questions(sizes))
    return result


def _questions(sizes: Iterable[Any]) -> list[Asked]:
    found = list[Asked]()
    for x in sizes:
        if type(x) is SizeText:
            found += [Asked(content, (x.formula,)), Asked(content, (x.formula,), guessed=True)]
        else:
            found += dims.goes_on(x)
    return found


def _sizes_in(items: Iterable[Any], depth: int = 3) -> Iterable[Any]:
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

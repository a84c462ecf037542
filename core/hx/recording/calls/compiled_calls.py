"""Compiled code that a model calls directly: the line of the call, and how to hook it.

Such a call arrives at no door. Its effects reveal it: a tensor of unknown origin, memory that
changed, a number that the graph does not compute. The source of the running function tells which
call it was: the calls in it, and in the functions that it calls, whose name stands for a function
of a compiled library (pybind11, ctypes, Cython, Triton, Numba...).
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import functools
import inspect
import linecache
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ...budget import BUDGET
from ...errors import Where
from ...torch_facts import LIBRARIES

if TYPE_CHECKING:
    from ..records import Findings, ModelParts, Position, Tallies

_C_FUNCTION = type(ctypes.pythonapi.Py_IncRef).__mro__[1]  # of every library's functions
LAST_LINE = sys.maxsize
_COMPILERS = {"triton", "numba", "cupy", "taichi", "warp", "pycuda"}
_KINDS = ("cython_function_or_method", "nb_func", "nb_method", "fortran", "PyCFunction")


@dataclass(frozen=True)
class Compiled:
    """A call of compiled code: what is called, where, and the target that a converter is for."""

    name: str
    file: str
    line: int
    target: str  # empty where nothing has a name that could be hooked
    has_name: bool = False  # of its own: else the target is the function around the call

    def __str__(self) -> str:
        return f"{self.name} at {self.file}:{self.line}"


def calls(running: Any) -> list[Compiled]:
    """The calls of compiled code in what a frame runs, up to its line, or in all of a model."""
    if isinstance(running, types.FrameType):
        names = {**running.f_globals, **running.f_locals}
        line = last = running.f_lineno
    else:
        function = _python(running)
        if function is None:
            return []
        names = {**function.__globals__, **_closed(function)}
        line, last = function.__code__.co_firstlineno, LAST_LINE
    code = code_of(running)
    assert code is not None
    return list(dict.fromkeys(_calls(code.co_filename, line, names, last, set())))


def running(position: Position, model: ModelParts) -> Any:
    """The frame of the user's function that is running; the model's, after that has returned."""
    return position.frames.inside() or model.function


def running_calls(position: Position, model: ModelParts) -> list[Compiled]:
    """The calls of compiled code in what runs now."""
    return calls(running(position, model))


def code_of(running: Any) -> types.CodeType | None:
    if isinstance(running, types.FrameType):
        return running.f_code
    function = _python(running)
    return None if function is None else function.__code__


def _python(model: Any) -> types.FunctionType | None:
    function = getattr(model, "forward", model)
    function = getattr(function, "__func__", function)
    return function if isinstance(function, types.FunctionType) else None


def unseen(findings: Findings, position: Position, tallies: Tallies) -> list[Compiled]:
    """Return calls of compiled code without a converter that no hook saw, in functions that ran.

    Every line of such a function counts: which of them ran is not known.
    """
    seen = {where.file_line for where in findings.operator_lines}
    found: dict[Compiled, None] = {}
    for code, names in position.frames.visited:
        if not _may_call(code, names):
            continue
        for one in _calls(code.co_filename, code.co_firstlineno, names, LAST_LINE, set()):
            known = one.target in tallies.converted or one.target in tallies.declined
            if not known and (one.file, one.line) not in seen:
                found[one] = None
    return list(found)


def _may_call(code: types.CodeType, names: Mapping[str, Any]) -> bool:
    """Return True if a name in a function stands for compiled code: a quick first test."""
    for name in code.co_names:
        thing = names.get(name)
        if _is_compiled(thing):
            return True
        if isinstance(thing, (types.ModuleType, ctypes.CDLL)):
            if any(_is_compiled(vars(thing).get(inner)) for inner in code.co_names):
                return True
    return False


def around(where: Where) -> Any:
    """The source of the function around a line, as a tree; None where there is no source."""
    found = _function(where.file, where.line)
    return None if found is None else found[0]


def target_at(where: Where) -> str:
    """The dotted path of the function around a line, or nothing where it has none."""
    found = _function(where.file, where.line)
    for module in list(sys.modules.values()) if found else ():
        names = getattr(module, "__dict__", {})
        if found and names.get("__file__") == where.file:
            path = found[1]
            owner = names.get(path[0]) if len(path) == 2 and path[1] == "forward" else None
            if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
                path = path[:1]  # its callers call its apply
            return _outer(names, path)
    return ""


def message_parts(found: list[Compiled], where: Where) -> dict[str, Any]:
    """The parts of an error: where, why, and what to do."""
    if not found:
        return {
            "where": where,
            "hint": "register a converter for the function that made it: hx packs new my-pack "
            "--target package.module.function",
        }
    last = found[-1]
    which = ", or ".join(map(str, reversed(found[-3:])))
    return {
        "where": Where(last.file, last.line, where.scope, where.function),
        "why": f"{which} is compiled code that is called directly: what it computes by itself "
        "arrives nowhere",
        "hint": how(last),
    }


def how(one: Compiled) -> str:
    """Return the hint for hooking a call of compiled code."""
    if one.target:
        return f"give it a converter: hx packs new my-pack --target {one.target}"
    return (
        f"put the call of {one.name} into a function of a module, and give that a converter: hx "
        "packs new my-pack --target module.function"
    )


def _calls(
    file: str, line: int, names: Mapping[str, Any], last: int, seen: set[tuple[str, int]]
) -> Iterator[Compiled]:
    found = _function(file, line)
    if (
        found is None
        or (file, found[0].lineno) in seen
        or len(seen) >= BUDGET.objects.functions_read
    ):
        return
    seen.add((file, found[0].lineno))
    body, path = found
    places = sorted(
        (node for node in ast.walk(body) if isinstance(node, ast.Call) and node.lineno <= last),
        key=lambda node: (node.lineno, -node.col_offset),
    )
    for node in places:
        thing = _value(node.func, names)
        if _is_compiled(thing):
            own = _target(thing)
            called = ast.unparse(node.func)
            yield Compiled(called, file, node.lineno, own or _outer(names, path), bool(own))
        elif isinstance(thing, types.FunctionType) and _root(thing) not in LIBRARIES:
            code = thing.__code__
            inner = {**thing.__globals__, **_closed(thing)}
            yield from _calls(code.co_filename, code.co_firstlineno, inner, LAST_LINE, seen)


def _closed(function: types.FunctionType) -> dict[str, Any]:
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except (TypeError, ValueError):
        return {}


@functools.lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


def _function(file: str, line: int) -> tuple[Any, tuple[str, ...]] | None:
    """The innermost function around a line, and the names of what it stands in."""
    tree = _tree(file)
    if tree is None:
        return None
    best: tuple[Any, tuple[str, ...]] | None = None
    stack: list[tuple[Any, tuple[str, ...]]] = [(tree, ())]
    while stack:
        node, path = stack.pop()
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            below = (*path, getattr(child, "name", "")) if named else path
            if not isinstance(child, (ast.expr_context, ast.operator)):
                stack.append((child, below))
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                inside = first <= line <= (child.end_lineno or line)
                if inside and (best is None or child.lineno >= best[0].lineno):
                    best = child, below
    return best


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of an expression of names, looked up without running any code of the user."""
    if isinstance(node, ast.Name):
        return names.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Subscript):  # kernel[grid](...)
        return _value(node.value, names)
    if isinstance(node, ast.Attribute):
        base = _value(node.value, names)
        if base is None:
            return None
        if isinstance(base, types.ModuleType):
            return vars(base).get(node.attr)
        if isinstance(base, ctypes.CDLL):
            return vars(base).get(node.attr)
        return inspect.getattr_static(base, node.attr, None)
    return None


def _is_compiled(thing: Any) -> bool:
    if isinstance(thing, _C_FUNCTION):
        return True
    kind = type(thing)
    if kind.__name__ in _KINDS or kind.__module__.partition(".")[0] in _COMPILERS:
        return True
    compiled = isinstance(thing, (types.BuiltinFunctionType, types.MethodDescriptorType))
    return compiled and _root(thing) not in LIBRARIES


def is_function(thing: Any) -> bool:
    """Return True for compiled code that is simply called: a Triton kernel is indexed first."""
    return isinstance(thing, types.BuiltinFunctionType) or type(thing).__name__ in _KINDS


def _root(thing: Any) -> str:
    owner = getattr(thing, "__module__", None) or type(getattr(thing, "__self__", None)).__module__
    return str(owner).partition(".")[0]


def _target(thing: Any) -> str:
    """The dotted path under which a function of a compiled library is found, if it is."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__name__", "")
    if getattr(sys.modules.get(module or ""), name, None) is thing:
        return f"{module}.{name}"
    return ""


def _outer(names: Mapping[str, Any], path: tuple[str, ...]) -> str:
    """The dotted path of the function around the call, if its module has it by that name."""
    module = names.get("__name__")
    found: Any = sys.modules.get(str(module))
    for part in path:
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return ".".join([str(module), *path]) if found is not None and path else ""

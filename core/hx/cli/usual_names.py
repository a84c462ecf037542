"""Usual names of targets: `Conv2d`, `nn.ReLU`, `Tensor.__add__`, `+`."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hx.packs.registry import Registry
    from hx.packs.targets import Target

PREFIXES = {"F": "torch.nn.functional", "nn": "torch.nn", "Tensor": "torch.Tensor"}
_HOMES = ("torch.nn", "torch.nn.functional", "torch", "torch.Tensor")
_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "@": "matmul", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "&": "and",
    "|": "or", "^": "xor", "~": "invert", "<<": "lshift", ">>": "rshift", "[]": "getitem",
}  # fmt: skip


def full_name(text: str) -> str:
    """Return the full name of an operator sign (`+`) or a short name (`F.relu`); else the text."""
    if text in _OPERATORS:
        return f"torch.Tensor.__{_OPERATORS[text]}__"
    first, dot, rest = text.partition(".")
    return f"{PREFIXES[first]}.{rest}" if dot and first in PREFIXES else text


def found_in_torch(name: str) -> Target | None:
    """Find what a name without a dot names in torch.nn, torch.nn.functional, torch or Tensor."""
    from hx.errors import TargetError
    from hx.packs.targets import resolve

    for home in _HOMES:
        try:
            return resolve(f"{home}.{name}")
        except TargetError:
            continue
    return None


def converted_inside(found: Target, registry: Registry) -> list[list[str]]:
    """List the converted functions that a function without a converter calls, each with all its names."""
    groups: list[list[str]] = []
    start: Any = found.function or found.key
    level = [start] if isinstance(start, types.FunctionType) else []
    seen: set[Any] = set()
    for _ in range(4):  # levels of calls: a forward, its helper methods, functional, operators
        inside: list[types.FunctionType] = []
        for function in level:
            for called in _called(function, found.owner):
                names = registry.names(called.meant)
                if names and names not in groups:
                    groups.append(names)
                elif not names and isinstance(called.key, types.FunctionType):
                    inside.append(called.key)
        seen.update(level)
        level = [function for function in dict.fromkeys(inside) if function not in seen]
    return groups


def _called(function: types.FunctionType, owner: Any) -> Iterator[Target]:
    """Yield the functions that a function's source calls by a dotted name, or as its own methods."""
    from hx.errors import TargetError
    from hx.packs.targets import resolve

    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _dotted(node.func, function.__globals__, owner)
        if name is None:
            continue
        try:
            yield resolve(name)
        except TargetError:
            continue


def _dotted(node: ast.expr, space: dict[str, Any], owner: Any) -> str | None:
    """Spell the target of a call: `F.conv2d`, `self._conv_forward`, or a function of the module."""
    if isinstance(node, ast.Name):
        value = space.get(node.id)
        if isinstance(value, types.FunctionType):
            return f"{value.__module__}.{value.__qualname__}"
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id == "self" and isinstance(owner, type):
            return f"{owner.__module__}.{owner.__qualname__}.{node.attr}"
        value = space.get(node.value.id)
        if isinstance(value, types.ModuleType):
            return f"{value.__name__}.{node.attr}"
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
        try:
            whole = ast.unparse(node)
        except ValueError:
            return None
        value = space.get(whole.partition(".")[0])
        if isinstance(value, types.ModuleType):
            return f"{value.__name__}.{whole.partition('.')[2]}"
    return None

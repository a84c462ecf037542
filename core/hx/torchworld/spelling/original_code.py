"""A test whether a name still holds its library's own code, or code that somebody put in its place.

A converter is right for the code that its target had when it was written. When the user puts
another forward in its place (`nn.ReLU.forward = mine`, `mock.patch`), the new one is part of the
model: its body is opened, and the converter is not used.

Most functions are quickly recognized: they were made in the module, and under the name, where they
are found. For the others (decorators without `functools.wraps`, names that a library passes on) the
source of the module decides: only a plain `def` with other code in its place was replaced.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from collections.abc import Iterable
from typing import Any


def replaced(owner: Any, attribute: str, function: Any) -> bool:
    """Return True if `owner.attribute`, which is `function` innermost, is somebody else's code."""
    holder = _holder(owner, attribute)
    if isinstance(holder, type):
        home, path = holder.__module__, f"{holder.__qualname__}.{attribute}"
    elif isinstance(holder, types.ModuleType):
        home, path = holder.__name__, attribute
    else:
        return False
    if function is None:
        # A mock, or anything else that is called: not what a `def` leaves, nor one of torch's own.
        kind = type(vars(holder).get(attribute))
        if isinstance(holder, types.ModuleType):
            if home.partition(".")[0] == "torch":
                return kind.__module__.partition(".")[0] not in ("torch", "builtins")
            if kind is types.BuiltinFunctionType:  # a faster one that the module itself may bring
                return False
        return _bound(home, path) == "def"
    made = function.__globals__.get("__name__", "")
    if made == home and (function.__qualname__ == path or isinstance(holder, types.ModuleType)):
        return False
    own, foreign = home.partition(".")[0], made.partition(".")[0]
    if own == "torch" and foreign != own and not isinstance(holder, type):
        return True
    how = _bound(home, path)
    if how == "def":
        return True
    return how.partition(".")[0] == own and foreign != own


def is_defined(owner: Any, attribute: str) -> bool:
    """Return True if the source of its module defines `owner.attribute` by a plain `def`."""
    return isinstance(owner, types.ModuleType) and _bound(owner.__name__, attribute) == "def"


def _holder(owner: Any, attribute: str) -> Any:
    for cls in getattr(owner, "__mro__", ()):
        if attribute in vars(cls):
            return cls
    return owner


@functools.cache
def _bound(home: str, path: str) -> str:
    """The way in which the module's source binds a name: "def", the module of the import, or ""."""
    body: Iterable[ast.stmt] = _source(home)
    *outer, name = path.split(".")
    for part in outer:
        classes = [s for s in body if isinstance(s, ast.ClassDef) and s.name == part]
        if not classes:
            return ""
        body = classes[-1].body
    found = ""
    for statement in body:
        bound = _binding(home, statement, name)
        if bound is None:
            return ""  # in some branch or loop: nothing can be said
        found = found if bound == _OTHER else bound
    return found


_OTHER = "?"  # a statement that does not bind the name


def _binding(home: str, statement: ast.stmt, name: str) -> str | None:
    """The way in which one statement binds a name; None if it does so conditionally."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if statement.name != name:
            return _OTHER
        return "" if statement.decorator_list else "def"
    if isinstance(statement, ast.ImportFrom):
        names = [alias.asname or alias.name for alias in statement.names]
        return _absolute(home, statement) if name in names else _OTHER
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return "" if any(isinstance(t, ast.Name) and t.id == name for t in targets) else _OTHER
    inner = (n.name for n in ast.walk(statement) if isinstance(n, ast.FunctionDef))
    return None if name in inner else _OTHER


def _absolute(home: str, statement: ast.ImportFrom) -> str:
    return home.partition(".")[0] if statement.level else statement.module or ""


def _source(home: str) -> list[ast.stmt]:
    module = sys.modules.get(home)
    if module is None:
        return []
    try:
        return ast.parse(inspect.getsource(module)).body
    except (OSError, TypeError, SyntaxError):
        return []

"""Where callables that have no code of their own are stored, so that they can be hooked there.

In the globals of modules, in their classes, in the variables that a function has from around it (as
what a decorator returns has the function that it decorates), and on the modules of the model.
"""

from __future__ import annotations

import sys
import types
from builtins import len  # its own: `world` hooks those of the model
from collections.abc import Callable, Iterator
from typing import Any

from . import shallow

_SKIPPED = {"torch", "numpy", "onnx", "onnx_ir", "onnxruntime", "hx", "hx_converters", "rich"}
_SKIPPED |= {"ml_dtypes", "sympy", *sys.stdlib_module_names}

_BOUND = (types.MethodType, staticmethod, classmethod)

Place = tuple[Any, str]
# By module and question: how long the module was, and what was found.
_seen: dict[tuple[str, Callable], tuple[int, list[Place]]] = {}


def places(recording: Any, wanted: Callable[[Any], bool]) -> list[Place]:
    """Owner and name of each thing that is wanted, in libraries other than torch's own."""
    found = [
        (owner, name)
        for key, module in list(sys.modules.items())
        if key.partition(".")[0] not in _SKIPPED and isinstance(module, types.ModuleType)
        for owner, name in _in_module(key, module, wanted)
        if wanted(_held(owner, name))
    ]
    for _, module in recording.modules:
        found += [(module, name) for name, x in shallow.own(module) if wanted(x)]
    return found


def _in_module(key: str, module: types.ModuleType, wanted: Callable[[Any], bool]) -> list[Place]:
    space = vars(module)
    length, found = _seen.get((key, wanted), (-1, []))
    if length != len(space):
        found = list(_search(module, space, wanted))
        _seen[key, wanted] = len(space), found
    return found


def _search(
    module: types.ModuleType, space: dict[str, Any], wanted: Callable[[Any], bool]
) -> Iterator[Place]:
    known: set[int] = set()
    for name, thing in list(space.items()):
        if wanted(thing):
            yield module, name
        elif isinstance(thing, type) and thing.__module__ == module.__name__:
            for inner, x in list(vars(thing).items()):
                if wanted(x):
                    yield thing, inner
                else:
                    yield from _around(x, wanted, known)
        else:
            yield from _around(thing, wanted, known)


def _around(thing: Any, wanted: Callable[[Any], bool], known: set[int]) -> Iterator[Place]:
    """The cells of a function, and of the functions in them."""
    # By its type: some objects answer to every name, and some are imported when they are asked.
    function = thing.__func__ if type(thing) in _BOUND else thing
    if type(function) is not types.FunctionType or id(function) in known:
        return
    known.add(id(function))
    for cell in function.__closure__ or ():
        inside = _held(cell, "cell_contents")
        if wanted(inside):
            yield cell, "cell_contents"
        else:
            yield from _around(inside, wanted, known)


def _held(owner: Any, name: str) -> Any:
    if isinstance(owner, types.CellType):
        try:
            return owner.cell_contents
        except ValueError:  # nothing yet
            return None
    return vars(owner).get(name)

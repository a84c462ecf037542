"""Lines of a model that make its result another one at each call: clocks, draws, and state.

They are read from the code of the functions that the model can reach. PyTorch's own draws are not
among them: the graph draws, too.
"""

from __future__ import annotations

import datetime
import dis
import os
import random
import secrets
import sys
import time
import types
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import Where
from ...ir.request import Call
from ...torchworld.spelling.reachable_functions import reachable
from ...torchworld.state import shallow
from ...torchworld.state.remembered_items import SIMPLE

_FUNCTIONS = (types.BuiltinFunctionType, types.FunctionType, types.MethodType)
_NO_CLOCKS = ("sleep", "mktime", "strptime", "tzset")
_CLOCKS = (
    *(
        function
        for name, function in vars(time).items()
        if isinstance(function, types.BuiltinFunctionType) and name not in _NO_CLOCKS
    ),
    *(getattr(datetime.datetime, name) for name in ("now", "today", "utcnow")),
    datetime.date.today,
)
_DRAWS = (os.urandom, uuid.uuid1, uuid.uuid4, *(getattr(secrets, name) for name in secrets.__all__))
# Only these are asked for attributes: others may import something then.
_OPEN = (time, datetime, datetime.datetime, datetime.date, random, os, uuid, secrets)


def varying_reads(call: Call) -> list[tuple[str, Where]]:
    """Return what in the model's code may vary from call to call, each with its line."""
    modules = [module for _, module in shallow.walk(call.root)]
    held = [
        (name, x)
        for module in modules
        for name, x in vars(module).items()
        if type(x) not in SIMPLE and not name.startswith("_")
    ]
    kept = {name: text for name, x in held if (text := _of_object(x, name))}
    found: dict[tuple[str, Where], None] = {}
    for function in reachable(call.model, modules, [x for _, x in held], ()):
        if function.__module__.partition(".")[0] in sys.stdlib_module_names:
            continue  # the model's line that calls it says more
        cells = _cells(function)
        for code in _codes(function.__code__):
            found.update(dict.fromkeys(_of_code(code, {**function.__globals__, **cells}, kept)))
    return list(found)


def lines_that_name(call: Call, name: str) -> Iterator[Where]:
    """Yield the lines that bind a variable, and then those that read it."""
    modules = [module for _, module in shallow.walk(call.root)]
    held = [x for module in modules for x in vars(module).values() if type(x) not in SIMPLE]
    reads = []
    for function in reachable(call.model, modules, held, ()):
        for code in _codes(function.__code__):
            for step, line in _steps(code):
                where = Where(code.co_filename, line, "", code.co_name)
                if step.argval == name and step.opname.startswith("STORE_"):
                    yield where
                elif step.argval == name and step.opname.startswith("LOAD_"):
                    reads.append(where)
    yield from reads


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def _steps(code: types.CodeType) -> Iterator[tuple[dis.Instruction, int]]:
    starts, line = dict(dis.findlinestarts(code)), code.co_firstlineno
    for step in dis.get_instructions(code):
        line = starts.get(step.offset) or line
        yield step, line


def _cells(function: types.FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # nothing yet
            continue
    return found


def _of_code(
    code: types.CodeType, names: Mapping[str, Any], kept: Mapping[str, str]
) -> Iterator[tuple[str, Where]]:
    """Yield what lines do that varies; names and attributes are followed from step to step."""
    thing: Any = None
    local: dict[str, Any] = {}
    written: dict[tuple[int, str], str] = {}
    for step, line in _steps(code):
        name, where = step.argval, Where(code.co_filename, line, "", code.co_name)
        before, thing = thing, None
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            thing = names.get(name)
            if text := _of_object(thing, str(name)):
                yield text, where
        elif step.opname == "IMPORT_NAME":
            thing = sys.modules.get(name)
        elif step.opname in ("STORE_FAST", "STORE_NAME"):
            local[name] = before
        elif step.opname == "LOAD_FAST":
            thing = local.get(name)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            if _is_open(before):
                thing = getattr(before, name, None)
            elif _has_attributes(before):
                written[line, name] = f"{before.__name__}.{name}"
            elif name in kept:
                yield kept[name], where
        elif step.opname == "STORE_ATTR":
            own = f"{before.__name__}.{name}" if _has_attributes(before) else ""
            if own := written.get((line, name), own):
                yield f"it writes to {own}, which it finds changed at its next call", where
        elif step.opname in ("PUSH_NULL", "EXTENDED_ARG", "COPY", "NOP"):
            thing = before
        if text := _of_function(thing):
            yield text, where


def _is_open(thing: Any) -> bool:
    if any(thing is each for each in _OPEN):
        return True
    return isinstance(thing, types.ModuleType) and thing.__name__ in ("numpy", "numpy.random")


def _has_attributes(thing: Any) -> bool:
    """Return True for a class, a module or a function that may keep something for the next call."""
    kept = isinstance(thing, (type, types.ModuleType, types.FunctionType))
    home = getattr(thing, "__module__", None) or thing.__name__ if kept else ""
    return kept and home.partition(".")[0] not in (*sys.stdlib_module_names, "torch", "numpy")


def _of_function(thing: Any) -> str:
    """Return what a call of it does, or "" if it does nothing that varies."""
    if not isinstance(thing, _FUNCTIONS):
        return ""
    if any(thing == clock for clock in _CLOCKS):
        return f"it reads a clock ({_named(thing)})"
    own = getattr(thing, "__self__", None)
    if any(thing == each for each in _DRAWS) or _is_generator(own):
        return f"it draws random numbers outside of PyTorch ({_named(thing)})"
    return ""


def _of_object(thing: Any, name: str) -> str:
    if _is_generator(thing):
        return f"it draws random numbers outside of PyTorch (from {name})"
    if hasattr(type(thing), "__next__"):
        return f"it takes the next item of an iterator ({name})"
    return ""


def _is_generator(thing: Any) -> bool:
    if isinstance(thing, random.Random):
        return True
    numpy = sys.modules.get("numpy.random")
    return numpy is not None and isinstance(thing, (numpy.Generator, numpy.RandomState))


def _named(function: Any) -> str:
    home = getattr(function, "__self__", None)
    if isinstance(home, (type, types.ModuleType)):
        return f"{home.__name__}.{function.__name__}".replace("posix.", "os.")
    if home is not None:
        return f"{'random' if type(home).__module__ == 'random' else 'numpy.random'}.{function.__name__}"
    return f"{function.__module__}.{function.__name__}".replace("posix.", "os.")

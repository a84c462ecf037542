"""Calls of the model, with errors that say where they come from."""

from __future__ import annotations

import re
from traceback import walk_tb
from typing import Any

from ..errors import ConverterError, ExportError, HxError, Unsupported
from ..packs import containers
from ..packs.pack_findings import brief, where_raised


def raised_by_model(problem: Exception) -> bool:
    """Return whether an error was raised while the model ran."""
    return any(frame.f_code is call_model.__code__ for frame, _ in walk_tb(problem.__traceback__))


def call_model(model: Any, args: tuple, kwargs: dict) -> Any:
    """Call the model; sys.exit() in it becomes an error instead of ending the process."""
    try:
        return model(*args, **kwargs)
    except SystemExit as end:
        what = f"the model calls sys.exit({end.code!r})"
        raise ExportError(what, where=where_raised(end)) from end
    except NotImplementedError as problem:
        # PyTorch's message when an operator whose arguments are functions meets our door.
        found = re.search(r"no rule registered for HigherOrderOperator (\w+)", str(problem))
        if found is None:
            raise
        raise Unsupported(
            f"{found[1]} takes functions, and hx does not know what it does with them",
            where=where_raised(problem),
            hint="write a converter for the function that calls it, and return `op.instead(...)` "
            "with a function that does without: hx packs new",
        ) from problem
    except HxError:
        raise
    except Exception as problem:
        if not (left_out := containers.forgotten()):
            raise
        raise ConverterError(
            f"the model raised {brief(problem)}",
            where=where_raised(problem),
            why=left_out,
        ) from problem

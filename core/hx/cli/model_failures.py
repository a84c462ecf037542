"""Failures of the model itself, told with its inputs and the module that failed."""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hx.errors import HxError, ModelFailed, Where

if TYPE_CHECKING:
    from hx.inputs.given import Call

_OF_PYTORCH = (RuntimeError, IndexError)  # as its operators raise them for wrong inputs


@contextlib.contextmanager
def model_failures(model: Any, call: Call) -> Iterator[None]:
    """Turn an error inside the model into one that names inputs, module and line."""
    from hx.recording.prepare import parameters_of

    parameters = [parameter.name for parameter in parameters_of(model)]
    names = {**dict(zip(parameters, call.args)), **call.kwargs}
    try:
        yield
    except HxError:
        raise
    except Exception as problem:  # of any kind: it is the model's
        refused = _refused(problem, model, names)
        if refused is None:
            raise
        raise refused from problem


def _refused(problem: Exception, model: Any, inputs: dict[str, Any]) -> ModelFailed | None:
    """Return the error for a call that failed inside the model; None if other code raised it."""
    from hx.packs.pack_findings import brief, own_line

    paths = {id(module): path for path, module in model.named_modules()}
    inner, frame, line = None, problem.__traceback__, ""
    while frame is not None:
        code = frame.tb_frame.f_code
        if not frame.tb_frame.f_globals.get("__name__", "").startswith("hx."):
            line = linecache.getline(code.co_filename, frame.tb_lineno).strip()
        here = frame.tb_frame.f_locals.get("self")
        inner = here if id(here) in paths else inner
        frame = frame.tb_next
    if inner is None:
        return None
    given = ", ".join(f"{name} {_form(value)}" for name, value in inputs.items())
    path = paths[id(inner)]
    scope = f"{path} ({_described(inner)})" if path else _described(inner)
    file, number = own_line(problem)
    if line.startswith(("raise", "assert")) or not isinstance(problem, _OF_PYTORCH):
        return ModelFailed(
            f"the model raised {brief(problem)}",
            where=Where(file, number, scope) if file else None,
            why=linecache.getline(file, number).strip(),
            hint=f"the inputs were {given or 'none'}; --debug shows the traceback",
        )
    return ModelFailed(
        f"the model refused {given or 'its inputs'} in {scope}",
        where=Where(file, number) if file else None,
        why=brief(problem),
        hint="compare the shapes and dtypes of the inputs with what the module takes",
    )


def _form(value: Any) -> str:
    if not hasattr(value, "dtype"):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"


def _described(module: Any) -> str:
    """Describe a module: `Linear 8 -> 4`."""
    for kind in ("features", "channels"):
        sizes = [getattr(module, f"{way}_{kind}", None) for way in ("in", "out")]
        if None not in sizes:
            return f"{type(module).__name__} {sizes[0]} -> {sizes[1]}"
    return type(module).__name__

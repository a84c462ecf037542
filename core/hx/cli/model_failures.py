"""Failures of the model itself, told with its inputs and the module that failed."""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from hx.errors import HxError, ModelFailed, Where
from hx.text import tensor_text

if TYPE_CHECKING:
    from hx.inputs.given import Call

_OF_OPERATORS = (RuntimeError, IndexError)  # as PyTorch's operators raise them for wrong inputs
_OF_LAYERS = (*_OF_OPERATORS, ValueError, AssertionError)  # as its layers, written in Python, do


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
    from hx.packs.guarded import no_cuda
    from hx.packs.pack_findings import brief, own_line

    paths = {id(module): path for path, module in model.named_modules()}
    inner, line, package = None, "", ""
    for frame, number in walk_tb(problem.__traceback__):
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("hx."):
            package, line = name, linecache.getline(frame.f_code.co_filename, number).strip()
        here = frame.f_locals.get("self")
        inner = here if id(here) in paths else inner
    if inner is None:
        return None
    given = ", ".join(f"{name} {_form(value)}" for name, value in inputs.items())
    path = paths[id(inner)]
    scope = f"{path} ({_described(inner)})" if path else _described(inner)
    file, number = own_line(problem)
    of_inputs = _is_of_inputs(problem, package, line)
    if not of_inputs or "CUDA" in str(problem):
        hint = f"the inputs were {given or 'none'}; --debug shows the traceback"
        if "CUDA" in str(problem) and no_cuda():
            hint = "torch sees no CUDA device here: write x.to(other.device) in place of x.cuda()"
        return ModelFailed(
            f"the model raised {brief(problem)}",
            where=Where(file, number, scope) if file else None,
            why=linecache.getline(file, number).strip(),
            hint=hint,
        )
    return ModelFailed(
        f"the model refused {given or 'its inputs'} in {scope}",
        where=Where(file, number) if file else None,
        why=brief(problem),
        hint=_other_dtype(model, inputs)
        or "compare the shapes and dtypes of the inputs with what the module takes",
    )


def _is_of_inputs(problem: Exception, package: str, line: str) -> bool:
    """Return True if PyTorch itself raised an error, as it does for wrong inputs."""
    if package.startswith("torch.nn."):
        return isinstance(problem, _OF_LAYERS)
    return isinstance(problem, _OF_OPERATORS) and not line.startswith(("raise", "assert"))


def _other_dtype(model: Any, inputs: dict[str, Any]) -> str:
    """Return a hint if floating-point inputs have another dtype than all weights, or ""."""
    held = {each.dtype for each in model.parameters() if each.is_floating_point()}
    given = {
        name: value.dtype
        for name, value in inputs.items()
        if hasattr(value, "is_floating_point") and value.is_floating_point()
    }
    if len(held) != 1 or not given or held & {*given.values()}:
        return ""
    dtype = str(held.pop()).removeprefix("torch.")
    return f"the weights are {dtype}: give {' and '.join(given)} in {dtype}, too"


def _form(value: Any) -> str:
    if not hasattr(value, "dtype"):
        return type(value).__name__
    return tensor_text(value.dtype, value.shape)


def _described(module: Any) -> str:
    """Describe a module: `Linear 8 -> 4`."""
    for kind in ("features", "channels"):
        sizes = [getattr(module, f"{way}_{kind}", None) for way in ("in", "out")]
        if None not in sizes:
            return f"{type(module).__name__} {sizes[0]} -> {sizes[1]}"
    return type(module).__name__

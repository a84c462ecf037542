"""One recorded call: its converter, its real result, and the checks of what the converter returns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import torch

from ... import dtypes
from ...errors import ConverterError, HxError, Where
from ...graph.op import Instead
from ...ir.sizes import dims
from ...ir.value import Value
from ..records import Running
from .arguments import Arguments, describe

if TYPE_CHECKING:
    from ...registration import Registration


class ModelRaised(Exception):
    """The model's own call raised while a converter asked for its result."""


def run_instead(
    running: Running, instead: Instead, door: Any, args: tuple, kwargs: Mapping[str, Any]
) -> Any:
    """The result of a function that replaces the body of a target; its calls are recorded."""
    running.busy = False
    try:
        with door:
            return instead.function(*args, **kwargs)
    finally:
        running.busy = True


class Call:
    """A call on its way from the model to the graph. The real one runs once, when first needed."""

    __slots__ = ("_real", "_run", "_spec", "assigned", "choice", "done", "error", "given", "many")

    def __init__(self, choice: Registration, given: Arguments, run: Callable[[], Any]) -> None:
        self.choice = choice
        self.given = given
        self._run = run
        self._real: Any = None
        self._spec: Any = None
        self.done = False
        self.error: BaseException | None = None
        self.assigned: list[tuple[Value, Value]] = []
        self.many: Any = None  # the size that says how many results there are

    def real(self) -> Any:
        if not self.done:
            try:
                self._real = self._run()
            except BaseException as e:  # also an interrupt: `real` is not asked again
                self.error = e
                raise
            self.done = True
        return self._real

    def result(self) -> Any:
        if self._spec is None:
            try:
                real = self.real()
            except Exception as e:  # the model's own error, which the caller gets unchanged
                raise ModelRaised from e
            self._spec = describe(real)
        return self._spec

    def assign(self, x: Value, value: Value) -> None:
        self.assigned.append((x, value))


def check(choice: Registration, real: torch.Tensor, out: Any, path: tuple) -> Value:
    """The value that a converter returned for one real tensor, after comparing the two."""
    spot = "".join(f"[{p!r}]" for p in path)
    if not isinstance(out, Value):
        raise _mismatch(choice, f"result{spot} should be a value, and is {type(out).__name__}")
    kind = torch.float32 if real.is_quantized else real.dtype
    if out.dtype is None:
        out.dtype = kind
    if out.dtype != kind:
        raise _mismatch(
            choice,
            f"result{spot} should be {dtypes.name(kind)}, and is {dtypes.name(out.dtype)}",
            hint="cast it: op.cast(x, op.result.dtype)",
        )
    shape = measured(out, real)
    if tuple(map(dims.plain, shape)) != tuple(real.shape):
        raise _mismatch(
            choice,
            f"result{spot} should have the shape {list(real.shape)}, and has "
            f"{[dims.plain(n) for n in shape]}",
        )
    for size in shape:
        if type(size) is dims.Dim:
            size.poly.counts = True
    return out


def measured(out: Value, real: torch.Tensor) -> tuple[int, ...]:
    """The sizes of a value; those that only a run can tell are as its real tensor has them."""
    if out.shape is None:
        out.shape = tuple(
            dims.Dim.leaf(out, i, n) if out.dynamic else n for i, n in enumerate(real.shape)
        )
    elif len(out.shape) == real.ndim:
        for axis, (old, n) in enumerate(zip(out.shape, real.shape)):
            if type(old) is dims.Dim and old.poly.unsure:
                new = dims.found(old, out, axis, n)
                out.shape = (*out.shape[:axis], new, *out.shape[axis + 1 :])
    return out.shape


def is_as_recorded(out: Any, real: torch.Tensor) -> bool:
    """Return True if a value agrees with a real tensor, and all its sizes are known for certain."""
    if not isinstance(out, Value) or out.dtype != real.dtype or out.shape is None:
        return False
    recorded = real.shape
    if len(out.shape) != len(recorded):
        return False
    for n, size in zip(out.shape, recorded):
        if type(n) is dims.Dim:
            if n.poly.unsure or n.poly.hint != size:
                return False
            n.poly.counts = True
        elif n != size:
            return False
    return True


def _mismatch(choice: Registration, what: str, hint: str = "") -> ConverterError:
    return ConverterError(
        f"the converter of {choice.target} ({choice.pack}) does not return what the target does: "
        + what,
        why=f"converter: {choice.where}",
        hint=hint,
    )


def blame(choice: Registration, error: BaseException, where: Where, by_hand: bool) -> HxError:
    """The error of a converter, with its own line, its pack and the user's line."""
    if isinstance(error, HxError):
        if error.where is None:
            error.where = where
        if isinstance(error, ConverterError) and not error.why:
            error.why = (
                f"converter of {choice.target} ({choice.pack}) at {_own_line(choice, error)}"
            )
        return error
    raised = ConverterError(
        f"the converter of {choice.target} ({choice.pack}) raised {_error_text(error)}",
        where=where,
        why=f"at {_own_line(choice, error)}",
        hint=_of_values(error)
        or ("" if by_hand else "it can be tried alone: hx converters try FILE SPEC"),
    )
    raised.__cause__ = error
    return raised


def _of_values(error: BaseException) -> str:
    """A hint for a converter that computed with a Value as if it were a tensor."""
    kinds = (TypeError, AttributeError)
    if not isinstance(error, kinds) or not re.search(r"\b(Value|Constant)\b", str(error)):
        return ""
    return (
        "a converter has values of the graph, and no tensors: op.Mul(x, y) in place of x * y, of "
        "torch.mul(x, y) and of x.mul(y)"
    )


def _error_text(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"sys.exit({error.code!r})"
    return f"{type(error).__name__}: {error}"


def _own_line(choice: Registration, error: BaseException) -> str:
    """The innermost line of the traceback that lies in the converter's own file."""
    line = choice.line
    for frame, number in walk_tb(error.__traceback__):
        if frame.f_code.co_filename == choice.file:
            line = number
    return f"{choice.file}:{line}"

"""Casts around an operator that exists, but not for this dtype.

ONNX types its operators, older opsets more narrowly, and onnxruntime has kernels for a part of
those types. Here, and only here, an input of a dtype that will not run is cast to the nearest one
that does, and the outputs back. If no other dtype holds the same numbers, the operator is written
with others that run (see `plainer`), or refused. The default runtime is asked for its kernels.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from .. import dtypes
from ..errors import BuilderError, Unsupported
from ..ir.value import Constant, Value
from . import schemas
from .op import Op
from .plainer import PLAIN

if TYPE_CHECKING:
    from .schemas import Schema
    from .writers import GraphWriter

# Wider dtypes, nearest first; every step keeps each number as it is (bfloat16 and float16 are
# computed in float32 by PyTorch's own CPU kernels, too).
_WIDER = {
    torch.bool: (torch.uint8, torch.int32, torch.int64, torch.float32),
    torch.uint8: (torch.int32, torch.int64, torch.float32),
    torch.int8: (torch.int32, torch.int64, torch.float32),
    torch.int16: (torch.int32, torch.int64, torch.float32),
    torch.uint16: (torch.int32, torch.int64, torch.float32),
    torch.int32: (torch.int64, torch.float64),
    torch.uint32: (torch.int64, torch.float64),
    torch.int64: (torch.int32, torch.float64),
    torch.uint64: (torch.int64,),
    torch.float16: (torch.float32,),
    torch.bfloat16: (torch.float32,),
    torch.float8_e4m3fn: (torch.float32,),
    torch.float8_e4m3fnuz: (torch.float32,),
    torch.float8_e5m2: (torch.float32,),
    torch.float8_e5m2fnuz: (torch.float32,),
    torch.float64: (),
}
# onnxruntime lists kernels for these, which then refuse to reduce, or to run at all.
_REDUCES_NOT = {
    (op, dtype)
    for op in ("ScatterElements", "ScatterND")
    for dtype in (torch.float16, torch.bfloat16, torch.bool)
}
_RUNS_NOT = {("LSTM", torch.float64), ("GRU", torch.float64)}
# int64 only narrows where no number is lost: indices of windows and the like never reach 2**31,
# and sums might; so only for operators that pick or order what is there.
_NARROWS = {"TopK", "ArgMax", "ArgMin", "OneHot"}
_AS_IS: set[tuple] = set()  # operators that were found to run as they are, with their dtypes
# All that these want to know of a number is whether it is zero.
_ASKS_FOR_ZERO = {"NonZero"}


@functools.cache
def kernels() -> dict[str, list]:
    """Map operators to the kernels of onnxruntime's CPU provider; empty if it lists none."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as runtime

        listed = runtime.get_all_opkernel_def()
    except (ImportError, AttributeError):
        return {}
    found: dict[str, list] = {}
    for k in listed:
        if k.domain in ("", "ai.onnx") and k.provider == "CPUExecutionProvider":
            found.setdefault(k.op_name, []).append((k.version_range, k.type_constraints))
    return found


@functools.cache
def runnable(op: str, since: int, parameter: str) -> frozenset[torch.dtype] | None:
    """The dtypes that onnxruntime runs for a type parameter; None if it does not list them."""
    spelled: set[str] = set()
    matched = False
    for (first, last), constraints in kernels().get(op, ()):
        if first <= since <= last:
            matched = True
            if parameter not in constraints:
                return None
            spelled.update(constraints[parameter])
    if not matched:
        return None
    return frozenset(dtypes.FROM_SPELLED[s] for s in spelled if s in dtypes.FROM_SPELLED)


@functools.cache
def accepted(op: str, since: int, parameter: str, allowed: frozenset) -> frozenset[torch.dtype]:
    run = runnable(op, since, parameter)
    if run is None:
        return allowed
    run = frozenset(dtype for dtype in run if (op, dtype) not in _RUNS_NOT)
    # onnxruntime itself widens float16 where it has no kernel.
    widened = {torch.float16} if torch.float32 in run else set()
    return allowed & (run | widened)


@functools.cache
def stand_in(op: str, since: int, parameter: str, dtype, allowed: frozenset) -> torch.dtype | None:
    """The dtype to compute in: the same when it runs, None when nothing better is known."""
    good = accepted(op, since, parameter, allowed)
    if dtype in good or not allowed:
        return dtype
    for wider in _WIDER.get(dtype, ()):
        narrower = dtype == torch.int64 and wider == torch.int32
        if wider in good and (not narrower or op in _NARROWS):
            return wider
    return torch.bool if op in _ASKS_FOR_ZERO and torch.bool in good else None


def runs(op: str, since: int, parameter: str, dtype: torch.dtype, better: Any) -> bool:
    """Return True if an operator is to be computed in the dtype found for one of its inputs."""
    if op in PLAIN and dtype == better == torch.float64:
        # A function of simpler operators, some of which may have no kernel either.
        return runnable(op, since, parameter) is not None or not kernels()
    if op in PLAIN and not dtype.is_floating_point and better is not None:
        return not better.is_floating_point  # which does not hold all whole numbers
    return better is not None


def refuse(op: str, opset: int, dtype: torch.dtype, allowed: frozenset) -> None:
    """Raise, unless the operator is a function, which onnxruntime expands."""
    spelled = dtypes.name(dtype)
    if dtype not in allowed:
        kinds = sorted(map(dtypes.name, allowed))
        floating = any(each.is_floating_point for each in allowed)
        wanted = "a floating-point dtype" if floating else " or ".join(kinds)
        raise Unsupported(
            f"ONNX's {op} takes no {spelled}",
            why="it takes no other dtype that holds the same numbers",
            hint=f"cast to {wanted} first",
        )
    if not schemas.is_function(op, opset):
        raise Unsupported(
            f"onnxruntime's CPU has no {op} of {spelled}",
            why="it has none for another dtype that holds the same numbers",
            hint="cast to float32 first",
        )


def fit(
    builder: GraphWriter, op: str, schema: Schema, values: list, attributes: dict, count: int
) -> list[Value] | None:
    """The outputs, computed in another dtype; None when the operator runs as it is."""
    if op == "Cast":
        _require_said(builder.opset, schema, values, attributes)
        return None
    reduced = attributes.get("reduction", "none") != "none"
    known = (
        None if reduced else (op, schema.since, *[None if v is None else v.dtype for v in values])
    )
    if known in _AS_IS:
        return None
    casts: dict[str, torch.dtype] = {}
    for i, value in enumerate(values):
        parameter = schema.in_type(i)
        allowed = schema.allowed.get(parameter)
        if value is None or allowed is None or parameter in casts or value.dtype is None:
            continue
        better = stand_in(op, schema.since, parameter, value.dtype, allowed)
        if reduced and (op, value.dtype) in _REDUCES_NOT:
            better = torch.int32 if value.dtype == torch.bool else torch.float32
        if not runs(op, schema.since, parameter, value.dtype, better):
            plain = PLAIN.write(Op(builder), op, values, attributes, count)
            if plain is not None:
                return plain
            if better is None:
                refuse(op, builder.opset, value.dtype, allowed)
        if better is not None and better != value.dtype:
            casts[parameter] = better
    if casts:
        return _computed_in(builder, op, schema, values, attributes, count, casts)
    _require_alike(op, schema, values)
    if known is not None:
        _AS_IS.add(known)
    return None


def _computed_in(
    builder: GraphWriter,
    op: str,
    schema: Schema,
    values: list,
    attributes: dict,
    count: int,
    casts: dict[str, torch.dtype],
) -> list[Value]:
    """The outputs of an operator with some type parameters cast, cast back."""
    originals: dict[str, torch.dtype] = {}
    fitted = []
    for i, value in enumerate(values):
        parameter = schema.in_type(i)
        if value is not None and parameter in casts:
            originals.setdefault(parameter, value.dtype)
            value = _cast(builder, value, casts[parameter])
        fitted.append(value)
    outputs = builder.append(op, schema, fitted, attributes, count)
    back = []
    for i, output in enumerate(outputs):
        kind, what = schema.out_types[min(i, len(schema.out_types) - 1)]
        parameter = schema.in_type(what) if kind == "same" else ""
        if parameter in originals:
            output = builder.cast(output, originals[parameter])
        back.append(output)
    return back


def _require_said(opset: int, schema: Schema, values: list, attributes: dict) -> None:
    """Raise Unsupported if the opset of a Cast lacks a dtype: eight-bit types came late."""
    target = dtypes.FROM_NUMBER[attributes["to"]]
    of_input, of_output = schema.in_type(0), schema.out_types[0][1]
    for parameter, dtype in ((of_input, values[0].dtype), (of_output, target)):
        if dtype is not None and dtype not in schema.allowed[parameter]:
            spelled = dtypes.name(dtype)
            first = schemas.first_with("Cast", parameter, dtype)
            raise Unsupported(
                f"opset {opset} has no {spelled}"
                + (f": it came with opset {first}" if first else ""),
                hint=f"export with opset={first} or newer" if first else "cast to float32 first",
            )


def _require_alike(op: str, schema: Schema, values: list) -> None:
    """Raise BuilderError if inputs of one type parameter differ in dtype, naming the converter,
    which onnx's checker cannot.
    """
    first: dict[str, tuple[int, torch.dtype]] = {}
    for i, value in enumerate(values):
        parameter = schema.in_type(i)
        if value is None or value.dtype is None or parameter not in schema.allowed:
            continue
        at, dtype = first.setdefault(parameter, (i, value.dtype))
        if dtype != value.dtype and parameter not in schema.mixed:
            spelled = [dtypes.name(d) for d in (dtype, value.dtype)]
            raise BuilderError(
                f"{op} takes inputs of one dtype, and got {spelled[0]} (input {at}) and "
                f"{spelled[1]} (input {i})",
                hint="op.cast(x, dtype) makes them alike",
            )


def _cast(builder: GraphWriter, value: Value, dtype: torch.dtype) -> Value:
    # A weight is stored as it is.
    if isinstance(value, Constant) and not value.name and value.tensor.numel() <= 64:
        cast = builder.constant(value.tensor.to(dtype))
        cast.frozen, cast.elements = True, value.elements
        return cast
    return builder.cast(value, dtype)

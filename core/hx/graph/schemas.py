"""ONNX's schema of an operator at an opset: arity, attributes, types. Read once per operator."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx.defs
import torch

from .. import dtypes
from ..ir.value import Body

NEWEST = 26  # the newest opset that onnxruntime runs; converters write this form

# Words that an attribute takes since a newer opset than the one that brought it. No schema lists
# them and neither the checker nor onnxruntime minds, so that the graph would be wrong in silence.
_LATER_WORDS = {
    ("ScatterElements", "reduction"): {"max": 18, "min": 18},
    ("ScatterND", "reduction"): {"max": 18, "min": 18},
}


def words_fit(op: str, attributes: dict[str, Any], since: int) -> bool:
    """Return True if an operator's version knows the string attributes that it is given."""
    for name, word in attributes.items():
        later = _LATER_WORDS.get((op, name))
        if later and since < later.get(word, 0):
            return False
    return True


@dataclass(slots=True, frozen=True)
class Schema:
    op: str
    min_inputs: int
    max_inputs: int
    min_outputs: int
    attributes: dict[str, int]  # name -> AttributeProto.AttributeType
    required: tuple[str, ...]
    in_types: tuple[str, ...]  # type parameter of each formal input ("T"), last one repeats
    out_types: tuple[tuple[str, Any], ...]  # ("same", input index) | ("is", dtype) | ("open", T)
    allowed: dict[str, frozenset[torch.dtype]]  # type parameter -> dtypes
    since: int
    mixed: frozenset[str] = frozenset()  # parameters of which each input may be another

    def in_type(self, index: int) -> str:
        if index < len(self.in_types):
            return self.in_types[index]
        return self.in_types[-1] if self.in_types else ""


@functools.cache
def schema(op: str, opset: int = NEWEST, domain: str = "") -> Schema | None:
    """The schema of an operator, or None when that opset does not have it."""
    try:
        found = onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None
    if found.deprecated:
        return None
    in_types = tuple(i.type_str for i in found.inputs)
    allowed = {
        c.type_param_str: frozenset(
            dtypes.FROM_SPELLED[t] for t in c.allowed_type_strs if t in dtypes.FROM_SPELLED
        )
        for c in found.type_constraints
    }
    out_types: list[tuple[str, Any]] = []
    for out in found.outputs:
        if out.type_str in in_types:
            out_types.append(("same", in_types.index(out.type_str)))
        elif out.type_str in dtypes.FROM_SPELLED:
            out_types.append(("is", dtypes.FROM_SPELLED[out.type_str]))
        elif len(allowed.get(out.type_str, ())) == 1:
            out_types.append(("is", next(iter(allowed[out.type_str]))))
        else:
            out_types.append(("open", out.type_str))
    return Schema(
        op=op,
        min_inputs=found.min_input,
        max_inputs=found.max_input,
        min_outputs=found.min_output,
        attributes={n: int(a.type.value) for n, a in found.attributes.items()},  # type: ignore[attr-defined]
        required=tuple(n for n, a in found.attributes.items() if a.required),
        in_types=in_types,
        out_types=tuple(out_types),
        allowed=allowed,
        since=found.since_version,
        mixed=frozenset(i.type_str for i in found.inputs if not i.is_homogeneous),
    )


@functools.cache
def is_function(op: str, opset: int) -> bool:
    """Return True if ONNX defines an operator as a function of simpler ones."""
    found: Any = onnx.defs.get_schema(op, opset)  # onnx's stubs do not list what is asked of it
    return bool(found.has_function or found.has_context_dependent_function)


@functools.cache
def names(domain: str = "") -> frozenset[str]:
    return frozenset(s.name for s in onnx.defs.get_all_schemas() if s.domain == domain)


def nearest(op: str, domain: str = "") -> list[str]:
    """Operators whose names look like `op`."""
    known = {n.lower(): n for n in names(domain)}
    return [known[n] for n in difflib.get_close_matches(op.lower(), known, 3)]


@functools.cache
def first_opset(op: str) -> int | None:
    """The opset that introduced an operator."""
    since = [
        s.since_version
        for s in onnx.defs.get_all_schemas_with_history()
        if s.name == op and not s.domain
    ]
    return min(since) if since else None


def first_with(op: str, parameter: str, dtype: torch.dtype) -> int | None:
    """The opset since which a type parameter of an operator may be a dtype."""
    for opset in range(1, NEWEST + 1):
        found = schema(op, opset)
        if found is not None and dtype in found.allowed.get(parameter, ()):
            return opset
    return None


def out_dtype(schema: Schema, index: int, values: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """The dtype of an output; None where nothing known decides it."""
    bodies = [v for v in attributes.values() if isinstance(v, Body)] if attributes else []
    if bodies:  # the first output of a loop's body says whether to go on
        return bodies[0].outputs[index + (schema.op == "Loop")].dtype
    kind, what = schema.out_types[min(index, len(schema.out_types) - 1)]
    if kind == "same":
        if what < len(values) and values[what] is not None:
            return values[what].dtype
        return None
    if kind == "is":
        return what
    if "to" in attributes:
        return dtypes.FROM_NUMBER[attributes["to"]]
    if "dtype" in attributes:
        return dtypes.FROM_NUMBER[attributes["dtype"]]
    if schema.op == "ConstantOfShape":
        value = attributes.get("value")
        return torch.float32 if value is None else value.dtype
    if schema.op == "DequantizeLinear":
        return values[1].dtype
    if schema.op == "QuantizeLinear":
        return values[2].dtype if len(values) > 2 and values[2] is not None else torch.uint8
    if schema.op in ("RandomNormalLike", "RandomUniformLike", "EyeLike", "Bernoulli"):
        return values[0].dtype
    if schema.op in ("RandomNormal", "RandomUniform", "BlackmanWindow", "HannWindow"):
        return torch.float32
    return None

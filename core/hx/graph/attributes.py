"""Checks and conversions of the attributes that a converter gives, to the types of ONNX."""

from __future__ import annotations

import enum
from typing import Any

import torch

from .. import dtypes
from ..errors import BuilderError, Unsupported
from ..ir.sizes import dims
from ..ir.value import Body, Value
from ..text import with_article

_INT, _FLOAT = (2, 7), (1, 6)  # numbers of AttributeProto's types: one, and a list of them


def no_dims(op: str, name: str, v) -> None:
    for n in v if isinstance(v, (list, tuple)) else (v,):
        if isinstance(n, Value):
            raise Unsupported(
                f"{op} needs a fixed number for {name}, and got a tensor whose contents are only known "
                "when the file runs",
                why=f"ONNX takes {name} of {op} as an attribute, written into the file",
                hint="pass a number, or one that follows from weights alone",
            )
        if isinstance(n, (dims.Dim, dims.DimFloat)):
            text = n.poly if isinstance(n, dims.Dim) else n.expr
            values = dims.asked(int, n).of_values()
            what = "values" if values else "a size"
            static = "" if values else "make that size static (leave it out of dynamic=), or "
            raise Unsupported(
                f"{op} needs {name} as a fixed number, and here it depends on {what}: {text}",
                why=f"ONNX takes {name} of {op} as an attribute, written into the file",
                hint=f"{static}compute it otherwise",
            )


def coerced(kind: int, v):
    if kind in (*_INT, *_FLOAT) and isinstance(v, (str, bytes)):
        raise TypeError(v)
    if kind in _INT:
        if isinstance(v, float) and not v.is_integer():
            raise ValueError(v)
        return int(v)
    if kind in _FLOAT:
        return float(v)
    return v if isinstance(v, str) else v.decode() if isinstance(v, bytes) else str(v)


def plain_attribute(op: str, name: str, v: Any) -> Any:
    """The attribute of an operator outside ONNX, as ONNX writes it."""
    if isinstance(v, torch.dtype):
        return dtypes.NUMBER[v]
    if isinstance(v, bool):
        return int(v)
    if type(v).__module__ == "numpy":
        return plain_attribute(op, name, v.tolist())
    if isinstance(v, (list, tuple)):
        return [plain_attribute(op, name, n) for n in v]
    no_dims(op, name, v)
    if isinstance(v, enum.Enum) and isinstance(v.value, (int, float, str)):
        return v.value
    if not isinstance(v, (int, float, str, bytes, torch.Tensor, Body)):
        raise BuilderError(
            f"{op}: the attribute {name} is {with_article(v)}, and ONNX has no such attributes",
            hint="an attribute is a number, a string, a list of these, a tensor or a body",
        )
    return v

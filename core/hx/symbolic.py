"""What was written for PyTorch's older exporter, honoured as converters.

    class Swirl(torch.autograd.Function):
        @staticmethod
        def symbolic(g, x, k):
            return g.op("acme::Swirl", x, k_f=k)

    torch.onnx.register_custom_op_symbolic("acme::swirl", lambda g, x, k: ..., opset)

`Graph` stands in for the `g` of such a function, `Symbol` for a value of it. A converter that a
pack or the user registered for the same thing comes first.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

from . import dims
from .errors import BuilderError
from .registration import Registration, place
from .values import Value

PACK = "symbolic"
_ATTRIBUTE = re.compile(r"(.+)_([ifstz])")


def of_function(cls: type) -> Registration | None:
    """The converter that an autograd function brings along."""
    symbolic = getattr(cls, "symbolic", None)
    if not callable(symbolic):
        return None
    return _registration(f"{cls.__module__}.{cls.__qualname__}", symbolic)


def of_operator(key: str, opset: int) -> Registration | None:
    """The converter that somebody registered with PyTorch for an operator, `library::name`.

    PyTorch's own table is not asked: hx has converters for what is in it.
    """
    table = _table()
    if table is None or not table.is_registered_op(key, opset):
        return None
    group = table.get_function_group(key)
    custom = group._functions._overrides
    versions = [v for v in custom if v <= opset]
    return _registration(key, custom[max(versions)]) if versions else None


def _table() -> Any:
    """PyTorch's registry, where somebody has loaded it: under one of its two names so far."""
    for home in ("torch.onnx._internal.torchscript_exporter", "torch.onnx._internal"):
        module = sys.modules.get(f"{home}.registration")
        if module is not None and hasattr(module, "registry"):
            return module.registry
    return None


@functools.lru_cache(maxsize=1024)
def _registration(target: str, symbolic: Callable) -> Registration:
    def convert(op, *args, **kwargs):
        graph = Graph(op)
        made = symbolic(graph, *map(_wrapped, args), **{k: _wrapped(v) for k, v in kwargs.items()})
        return _unwrapped(made)

    file, line = place(symbolic)
    return Registration(target, convert, pack=PACK, file=file, line=line)


class Graph:
    """`g`: writes nodes as PyTorch's graph does, with the type of an attribute in its name."""

    def __init__(self, op: Any) -> None:
        self._op = op
        self.opset = op.opset

    def op(self, name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        domain, _, kind = name.rpartition("::")
        plain = {}
        for key, value in attributes.items():
            match = _ATTRIBUTE.fullmatch(key)
            if match is None:
                raise BuilderError(
                    f"{name}: the attribute {key} does not end in its type",
                    hint=f"write {key}_i, {key}_f, {key}_s or {key}_t",
                )
            if value is not None:
                plain[match[1]] = value
        if domain in ("aten", "prim"):
            raise BuilderError(
                f"{name} is an operator of PyTorch, and no runtime has it",
                hint="write operators of ONNX, or of a domain that your runtime knows",
            )
        if kind == "Constant" and domain in ("", "onnx"):
            return Symbol(self._op.constant(next(iter(plain.values()))), self._op)
        values = [_unwrapped(x) for x in inputs]
        many = outputs if outputs > 1 else None
        if domain in ("", "onnx"):
            made = getattr(self._op, kind)(*values, outputs=many, **plain)
        else:
            made = self._op(domain, kind, *values, outputs=many, **plain)
        return _wrapped_in(made, self._op)

    def __getattr__(self, name: str) -> Any:
        raise BuilderError(
            f"g.{name} belongs to PyTorch's own graph, and is not to be had here",
            hint="write the nodes with g.op(...), or a converter: hx packs new",
        )


class Symbol:
    """A value, as functions for the older exporter ask of it. The names are PyTorch's."""

    def __init__(self, value: Value, op: Any = None) -> None:
        self.value = value
        self._op = op

    def type(self) -> Type:
        return Type(self.value.dtype, self.value.shape)

    def setType(self, kind: Any) -> Symbol:
        """Said for PyTorch's benefit: here the real output says it."""
        return self

    setTypeAs = setType

    def debugName(self) -> str:
        return self.value.label()

    def __getattr__(self, name: str) -> Any:
        raise BuilderError(
            f"a value of hx has no {name}()",
            hint="a converter can do without it: see `hx packs new`",
        )


class Type:
    """The type of a value: sizes that may vary are None, as they are there."""

    def __init__(self, dtype: torch.dtype, shape: tuple | None) -> None:
        self._dtype, self._shape = dtype, shape

    def dtype(self) -> torch.dtype:
        return self._dtype

    def scalarType(self) -> str:
        return _SCALARS.get(self._dtype, str(self._dtype).removeprefix("torch."))

    def dim(self) -> int | None:
        return None if self._shape is None else len(self._shape)

    def sizes(self) -> list[int | None] | None:
        if self._shape is None:
            return None
        return [None if dims.is_dynamic(n) else int(n) for n in self._shape]

    varyingSizes = sizes

    def kind(self) -> str:
        return "TensorType"

    def isSubtypeOf(self, other: Any) -> bool:
        return other.kind() == "TensorType"

    def with_sizes(self, sizes: Any) -> Type:
        return Type(self._dtype, tuple(sizes))

    def with_dtype(self, dtype: torch.dtype) -> Type:
        return Type(dtype, self._shape)


_SCALARS = {
    torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.int64: "Long",
    torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.bool: "Bool", torch.bfloat16: "BFloat16", torch.complex64: "ComplexFloat",
}  # fmt: skip


def _wrapped(x: Any) -> Any:
    return _wrapped_in(x, None)


def _wrapped_in(x: Any, op: Any) -> Any:
    if isinstance(x, Value):
        return Symbol(x, op)
    if type(x) in (list, tuple):
        return type(x)(_wrapped_in(v, op) for v in x)
    return x


def _unwrapped(x: Any) -> Any:
    if isinstance(x, Symbol):
        return x.value
    if type(x) in (list, tuple):
        return type(x)(map(_unwrapped, x))
    return x

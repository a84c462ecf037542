"""Converters made from code that was written for PyTorch's older exporter.

    class Swirl(torch.autograd.Function):
        @staticmethod
        def symbolic(g, x, k):
            return g.op("acme::Swirl", x, k_f=k)

    torch.onnx.register_custom_op_symbolic("acme::swirl", lambda g, x, k: ..., opset)

`Graph` stands in for the `g` of such a function, a `Symbol` for a value of it (see `symbols`). A
converter that a pack or the user registered for the same thing comes first.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..errors import BuilderError
from ..ir.sizes import dims
from ..ir.value import Value
from ..registration import Registration, place
from .symbols import Lacks, Listed, Node, Symbol

PACK = "symbolic"
_ATTRIBUTE = re.compile(r"(.+)_([ifstzg])")


def of_function(cls: type) -> Registration | None:
    """The converter that an autograd function brings along."""
    symbolic = getattr(cls, "symbolic", None)
    if not callable(symbolic):
        return None
    return _registration(f"{cls.__module__}.{cls.__qualname__}", symbolic)


def of_operator(key: str, opset: int) -> Registration | None:
    """Return the converter that user code registered with PyTorch for an operator, `library::name`.

    PyTorch's own table is not asked: hx has converters for what is in it.
    """
    table = _table()
    if table is None or not table.is_registered_op(key, opset):
        return None
    group = table.get_function_group(key)
    custom = group._functions._overrides
    versions = [v for v in custom if v <= opset]
    return _registration(key, custom[max(versions)], key) if versions else None


def passed_over(opset: int) -> list[str]:
    """Return a note on symbolics registered for PyTorch's own operators, which are ignored."""
    table = _table()
    found = []
    for key in sorted(table.all_functions()) if table is not None else ():
        custom = table.get_function_group(key)._functions._overrides
        if key.startswith("aten::") and any(version <= opset for version in custom):
            found.append(key)
    if not found:
        return []
    return [
        f"registered with torch.onnx, and not asked, because hx has converters of its own: "
        f"{', '.join(found)}; a converter for the torch function comes first (hx packs new)"
    ]


def _table() -> Any:
    """PyTorch's registry, if it is loaded, under either of the names that it has had."""
    for home in ("torch.onnx._internal.torchscript_exporter", "torch.onnx._internal"):
        module = sys.modules.get(f"{home}.registration")
        if module is not None and hasattr(module, "registry"):
            return module.registry
    return None


@functools.lru_cache(maxsize=1024)
def _registration(target: str, symbolic: Callable, operator: str = "") -> Registration:
    def convert(op, *args, **kwargs):
        graph = Graph(op)
        if operator:
            args, kwargs = _by_schema(operator, symbolic, args, kwargs)
        given = [wrapped(x, op, bool(operator)) for x in args]
        named = {key: wrapped(x, op, bool(operator)) for key, x in kwargs.items()}
        with _at_opset(op.opset):
            return graph.unwrapped(symbolic(graph, *given, **named))

    file, line = place(symbolic)
    return Registration(target, convert, pack=PACK, written_at=(file, line))


def _by_schema(operator: str, symbolic: Callable, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments as PyTorch hands them over: all that the schema has, by position."""
    library, _, name = operator.partition("::")
    packet = getattr(getattr(torch.ops, library), name, None)
    for overload in () if packet is None else packet.overloads():
        taken = getattr(packet, overload)._schema.arguments
        later = taken[len(args) :]
        if len(args) > len(taken) or not kwargs.keys() <= {each.name for each in later}:
            continue
        if all(each.name in kwargs or each.has_default_value() for each in later):
            rest = (kwargs.get(each.name, each.default_value) for each in later)
            whole = (*args, *rest)
            return (whole, {}) if _takes(symbolic, len(whole) + 1) else (args, kwargs)
    return args, kwargs


def _takes(function: Callable, count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # it has no signature
        pass
    return True


_versions = threading.RLock()


@contextlib.contextmanager
def _at_opset(opset: int) -> Iterator[None]:
    """Set the opset that such functions read: PyTorch's own, one for all threads."""
    held = _globals()
    if held is None:
        yield
        return
    with _versions:
        before = held.export_onnx_opset_version
        held._export_onnx_opset_version = opset
        try:
            yield
        finally:
            held._export_onnx_opset_version = before


def _globals() -> Any:
    """Return the export state of PyTorch's older exporter, if it is loaded."""
    for home in ("torch.onnx._internal.torchscript_exporter._globals", "torch.onnx._globals"):
        found = getattr(sys.modules.get(home), "GLOBALS", None)
        if hasattr(found, "_export_onnx_opset_version"):
            return found
    return None


class Graph:
    """`g`: writes nodes as PyTorch's graph does, with the type of an attribute in its name."""

    def __init__(self, op: Any) -> None:
        self._op = op
        self.opset = op.opset

    def op(self, name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        domain, _, kind = name.rpartition("::")
        plain = _attributes(name, attributes)
        if name == "prim::Constant" and not plain:
            return Symbol(None, self._op, Node("prim::Constant"))
        if name == "prim::ListConstruct":
            return Listed(inputs, self._op)
        if domain in ("aten", "prim"):
            raise BuilderError(
                f"{name} is an operator of PyTorch, and no runtime has it",
                hint="write operators of ONNX, or of a domain that your runtime knows",
            )
        if kind == "Constant" and domain in ("", "onnx"):
            return Symbol(self._op.constant(next(iter(plain.values()))), self._op)
        values = [self.unwrapped(x) for x in inputs]
        if any(isinstance(x, list) and any(isinstance(n, Value) for n in x) for x in values):
            raise BuilderError(
                f"{name}: an input is a list of tensors, and an ONNX node takes each by itself",
                hint="unpack it: g.op(name, *sym_help._unpack_list(tensors))",
            )
        many = outputs if outputs > 1 else None
        if domain in ("", "onnx"):
            made = getattr(self._op, kind)(*values, outputs=many, **plain)
        else:
            made = self._op(domain, kind, *values, outputs=many, **plain)
        symbols = [Symbol(x, self._op) for x in (made if many else [made])]
        for symbol in symbols:
            symbol._node = Node(f"{domain or 'onnx'}::{kind}", inputs, symbols, symbol._contents)
        return tuple(symbols) if many else symbols[0]

    def unwrapped(self, x: Any) -> Any:
        """Convert an argument of a symbolic for hx's builder: a value, a number, or a constant."""
        if type(x) is Listed:
            return [self.unwrapped(v) for v in x]
        if type(x) is Symbol:
            return x.value
        if isinstance(x, torch.Tensor):
            known = isinstance(x, torch.nn.Parameter) or self._op._builder.entry_of(x)
            return self._op.value(x) if known else self._op.constant(x.clone())
        if type(x) in (list, tuple):
            return type(x)(map(self.unwrapped, x))
        return x

    def __getattr__(self, name: str) -> Any:
        raise Lacks(
            f"g.{name} belongs to PyTorch's own graph, and is not to be had here",
            hint="write the nodes with g.op(...), or a converter: hx packs new",
        )


def _attributes(name: str, written: dict[str, Any]) -> dict[str, Any]:
    """Return attributes by their name in ONNX, without the type behind it."""
    plain = {}
    for key, value in written.items():
        match = _ATTRIBUTE.fullmatch(key)
        if match is None or match[2] == "g":
            raise BuilderError(
                f"{name}: the attribute {key} does not end in its type",
                hint=f"write {key}_i, {key}_f, {key}_s or {key}_t",
            )
        if value is not None:
            plain[match[1]] = _typed(value, match[2], f"{name}: the attribute {key}")
    return plain


def _typed(value: Any, kind: str, name: str) -> Any:
    """An attribute of the type that its name says; the value of a constant stands for its numbers."""
    if isinstance(value, torch._C.Value) and value.node().kind() == "onnx::Constant":
        value = value.node().t("value")
    if isinstance(value, torch.Tensor):
        return value if kind in "tz" else _typed(value.tolist(), kind, name)
    if isinstance(value, (list, tuple)):
        return [_typed(v, kind, name) for v in value]
    if isinstance(value, torch.dtype) or type(value) in (dims.Dim, dims.DimFloat):
        return value  # a number, and a size that may vary: the builder knows what to say
    if kind == "s" and isinstance(value, (str, bytes)):
        return value
    if kind == "f" and isinstance(value, (int, float)):
        return float(value)
    if kind == "i" and hasattr(value, "__int__") and not isinstance(value, (str, float)):
        return int(value)
    raise BuilderError(f"{name} cannot be {value!r}")


def wrapped(x: Any, op: Any, lists: bool) -> Any:
    """Wrap the values in an argument; with `lists`, a list of values can also be used as one value."""
    if isinstance(x, Value):
        return Symbol(x, op)
    if type(x) in (list, tuple):
        inner = [wrapped(v, op, lists) for v in x]
        return Listed(inner, op) if lists else type(x)(inner)
    return x

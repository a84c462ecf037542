"""Operations of TorchScript on numbers, lists and strings, in Python, and its questions to tensors."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from ...ir.sizes import dims
from ...torchworld.spelling import followed_functions, spellings


def _length(low: int, high: int, step: int) -> int:
    """The number of rounds of a range."""
    if dims.is_dynamic(step):  # up or down, as its sign is elsewhere
        return _most(0, -((low - high) // step))
    return _most(0, (high - low + step - (1 if step > 0 else -1)) // step)


def _some(x: list, start: Any = None, stop: Any = None, step: int = 1) -> list:
    return x[start:stop:step]


def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    return a / b if rounding_mode is None else a // b


def _least(a: Any, b: Any = None) -> Any:
    return _one_of(min, dims.smaller, a if b is None else (a, b))


def _most(a: Any, b: Any = None) -> Any:
    return _one_of(max, dims.larger, a if b is None else (a, b))


def _one_of(choose: Callable, carry: Callable, numbers: Any) -> Any:
    dynamic = any(map(dims.is_dynamic, numbers))
    return functools.reduce(carry, numbers) if dynamic else choose(numbers)


def _sort(x: list, reverse: bool = False) -> None:
    x.sort(reverse=reverse)


def _sum(a: Any, b: Any, alpha: int = 1) -> Any:
    return a + (b if alpha == 1 else b * alpha)


def _less(a: Any, b: Any, alpha: int = 1) -> Any:
    return a - (b if alpha == 1 else b * alpha)


_ARITHMETIC: dict[str, Callable] = {
    "add": _sum, "sub": _less, "mul": operator.mul, "div": _div, "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "pow": operator.pow,
    "neg": operator.neg, "abs": abs,
}  # fmt: skip
COMPARED: dict[str, Callable] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
PLAIN: dict[str, Callable] = {
    **_ARITHMETIC,
    **COMPARED,
    "Int": followed_functions.whole, "Float": followed_functions.real, "Bool": bool, "str": str,
    "ceil": math.ceil, "floor": math.floor, "round": round, "sqrt": math.sqrt, "log": math.log,
    "exp": math.exp, "sin": math.sin, "cos": math.cos, "min": _least, "max": _most,
    "__and__": operator.and_, "__or__": operator.or_, "__not__": operator.not_,
    "__xor__": operator.xor, "__is__": lambda a, b: _is_same(a, b),
    "__isnot__": lambda a, b: not _is_same(a, b),
    "__getitem__": operator.getitem, "__contains__": operator.contains, "len": len, "list": list,
    "append": list.append, "extend": list.extend, "insert": list.insert, "pop": list.pop,
    "reverse": list.reverse, "clear": list.clear, "copy": list.copy, "slice": _some,
    "keys": lambda x: list(x), "values": lambda x: list(x.values()),
    "items": lambda x: list(x.items()), "get": dict.get, "_set_item": operator.setitem,
    "add_": operator.iadd, "Delete": operator.delitem, "sort": _sort, "index": list.index,
    "count": list.count, "remove": list.remove, "format": str.format, "__range_length": _length,
    "__derive_index": lambda i, start, step: start + i * step,
}  # fmt: skip
OF_LISTS = {"__getitem__", "__contains__", "len", "list", "append",
             "extend", "insert", "pop", "reverse", "clear", "copy", "slice", "keys", "values",
             "items", "get", "_set_item", "format", "Delete", "sort", "index", "count",
             "remove"}  # fmt: skip
ALSO_OF_LISTS = {"add", "add_", "mul"}

OF_ALL = {"__is__", "__isnot__"}

# Tensors: what is no operator, or one that gives plain numbers.

DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
    torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8,
    torch.quint8, torch.qint32, torch.bfloat16,
]  # fmt: skip
FORMATS = [torch.contiguous_format, torch.preserve_format, torch.channels_last,
            torch.channels_last_3d]  # fmt: skip
LAYOUTS = ["strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr",
           "sparse_bsc", "jagged"]  # fmt: skip
ASKED: dict[str, Callable] = {
    "aten::size": lambda x, dim=None: list(x.shape) if dim is None else x.shape[dim],
    "aten::dim": lambda x: x.dim(),
    "aten::numel": spellings.count,
    "aten::len": lambda x: x.shape[0],
    "aten::item": lambda x: _item(x),
    "aten::Int": followed_functions.whole,
    "aten::Float": lambda x: followed_functions.real(_item(x)),
    "aten::Bool": bool,
    "aten::IntImplicit": followed_functions.whole,
    "aten::FloatImplicit": followed_functions.real,
    "aten::ScalarImplicit": lambda x: _item(x),
    "aten::is_floating_point": lambda x: x.is_floating_point(),
    "prim::abs": abs,
    "prim::dtype": lambda x: DTYPES.index(x.dtype),
    "prim::layout": lambda x: LAYOUTS.index(str(x.layout).removeprefix("torch.")),
    "prim::tolist": lambda x, *kind: x.tolist(),
    "prim::device": lambda x: x.device,
    "prim::data": lambda x: x.detach(),
    "prim::EnumName": lambda x: x.name,
    "prim::EnumValue": lambda x: x.value,
}


def _item(x: Any) -> Any:
    return x.item() if isinstance(x, torch.Tensor) else x


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float))


def _is_same(a: Any, b: Any) -> bool:
    """Return True if two values are the same: Python has a new object each time for a script's module."""
    return a is b or (isinstance(a, torch._C.ScriptObject) and a == b)


_KINDS: dict[str, type] = {
    "TensorType": torch.Tensor, "FloatType": float, "BoolType": bool, "StringType": str,
    "NoneType": type(None), "ComplexType": complex, "DeviceObjType": torch.device,
}  # fmt: skip


def is_of(x: Any, kind: Any) -> bool:
    """Return True if a value has a type of TorchScript."""
    name = kind.kind()
    if name == "IntType":
        return isinstance(x, int) and not isinstance(x, bool)
    if name == "ListType":
        return isinstance(x, list) and all(is_of(each, kind.getElementType()) for each in x)
    if name == "TupleType":
        parts = kind.elements()
        return isinstance(x, tuple) and len(x) == len(parts) and all(map(is_of, x, parts))
    if name == "OptionalType":
        return x is None or is_of(x, kind.getElementType())
    if name == "DictType":
        key, value = kind.getKeyType(), kind.getValueType()
        each = x.items() if isinstance(x, dict) else [(x, x)]
        return isinstance(x, dict) and all(is_of(k, key) and is_of(v, value) for k, v in each)
    return name == "AnyType" or (name in _KINDS and isinstance(x, _KINDS[name]))

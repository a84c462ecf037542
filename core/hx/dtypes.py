"""Names of the same dtype in torch, ONNX and numpy. Import it late: it imports torch."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from .errors import BuilderError, Unsupported

_TABLE = [  # torch, TensorProto.DataType, name in ONNX type strings
    (torch.float32, 1, "float"),
    (torch.uint8, 2, "uint8"),
    (torch.int8, 3, "int8"),
    (torch.uint16, 4, "uint16"),
    (torch.int16, 5, "int16"),
    (torch.int32, 6, "int32"),
    (torch.int64, 7, "int64"),
    (torch.bool, 9, "bool"),
    (torch.float16, 10, "float16"),
    (torch.float64, 11, "double"),
    (torch.uint32, 12, "uint32"),
    (torch.uint64, 13, "uint64"),
    (torch.complex64, 14, "complex64"),
    (torch.complex128, 15, "complex128"),
    (torch.bfloat16, 16, "bfloat16"),
    (torch.float8_e4m3fn, 17, "float8e4m3fn"),
    (torch.float8_e4m3fnuz, 18, "float8e4m3fnuz"),
    (torch.float8_e5m2, 19, "float8e5m2"),
    (torch.float8_e5m2fnuz, 20, "float8e5m2fnuz"),
]
if hasattr(torch, "float8_e8m0fnu"):  # older releases of torch lack it
    _TABLE.append((torch.float8_e8m0fnu, 24, "float8e8m0"))

NUMBER = {dtype: number for dtype, number, _ in _TABLE}
FROM_NUMBER = {number: dtype for dtype, number, _ in _TABLE}
FROM_SPELLED = {f"tensor({name})": dtype for dtype, _, name in _TABLE}

FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
COMPLEX = frozenset({torch.complex64, torch.complex128})


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def number(dtype: torch.dtype) -> int:
    """Return the ONNX type that holds exactly what `dtype` holds."""
    try:
        return NUMBER[dtype]
    except KeyError:
        raise Unsupported(
            f"ONNX has no tensor of type {dtype}",
            hint="convert the tensor to a type that ONNX has, such as torch.float32",
        ) from None


def of_number(number: int) -> torch.dtype:
    """Return the torch type that holds exactly what an ONNX type holds."""
    try:
        return FROM_NUMBER[number]
    except KeyError:
        raise Unsupported(f"torch has no tensor of ONNX type {number}") from None


def natural(x: Any) -> torch.dtype:
    """Return the dtype of a Python number, or of a (nested) list of them, on its own."""
    while isinstance(x, (list, tuple)):
        if not x:
            return torch.int64
        x = x[0]
    if isinstance(x, bool):
        return torch.bool
    if isinstance(x, int):
        return torch.int64
    if isinstance(x, float):
        return torch.float32
    if isinstance(x, complex):
        return torch.complex64
    if type(x).__module__ == "numpy":  # a numpy array or scalar
        with contextlib.suppress(TypeError):
            return torch.as_tensor(x).dtype
    raise no_input(x)


def no_input(x: Any) -> BuilderError:
    told = " ".join(repr(x).split())
    told = told if len(told) < 60 else f"{told[:56]} ..."
    return BuilderError(
        f"an input of a node cannot be {told} ({type(x).__name__})",
        hint="pass values, tensors, arrays of numbers, numbers, or lists of numbers and sizes",
    )

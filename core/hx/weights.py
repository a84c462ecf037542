"""A torch tensor seen as an ONNX one, without a copy of its memory.

`TorchTensor` is what initializers hold. It answers to `onnx_ir.TensorProtocol`, and adds
`chunks()`: the bytes that ONNX wants, as views of the tensor's own memory wherever that memory is
already in ONNX's order, and as copies of at most `PIECE` bytes elsewhere (transposed, on another
device, conjugated).

Imports torch and onnx_ir: import this module late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from hx.errors import Unsupported
from hx.values import Absent, Constant

PIECE = 16 << 20

_NAMES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "complex64": "COMPLEX64",
    "complex128": "COMPLEX128",
    "float8_e4m3fn": "FLOAT8E4M3FN",
    "float8_e4m3fnuz": "FLOAT8E4M3FNUZ",
    "float8_e5m2": "FLOAT8E5M2",
    "float8_e5m2fnuz": "FLOAT8E5M2FNUZ",
    "float8_e8m0fnu": "FLOAT8E8M0",
}
# Older releases of torch and onnx_ir lack the last ones.
_TO_ONNX: dict[torch.dtype, ir.DataType] = {
    getattr(torch, ours): ir.DataType[theirs]
    for ours, theirs in _NAMES.items()
    if hasattr(torch, ours) and theirs in ir.DataType.__members__
}
_TO_TORCH = {theirs: ours for ours, theirs in _TO_ONNX.items()}


def onnx_dtype(dtype: torch.dtype) -> ir.DataType:
    """The ONNX type that holds exactly what `dtype` holds."""
    try:
        return _TO_ONNX[dtype]
    except KeyError:
        raise Unsupported(
            f"ONNX has no tensor of type {dtype}",
            hint="convert the tensor to a type that ONNX has, such as torch.float32",
        ) from None


def torch_dtype(dtype: ir.DataType | int) -> torch.dtype:
    """The torch type that holds exactly what an ONNX type (or its number) holds."""
    try:
        return _TO_TORCH[ir.DataType(dtype)]
    except (KeyError, ValueError):
        raise Unsupported(f"torch has no tensor of ONNX type {dtype}") from None


class TorchTensor(ir.Tensor):
    """An ONNX tensor whose bytes are a torch tensor's, read when they are asked for."""

    def __init__(
        self, tensor: torch.Tensor, name: str | None = None, doc_string: str | None = None
    ) -> None:
        _refuse_what_has_no_bytes(tensor, name)
        super().__init__(
            tensor.detach(),
            onnx_dtype(tensor.dtype),
            shape=ir.Shape(list(tensor.shape)),
            name=name,
            doc_string=doc_string,
        )

    def __repr__(self) -> str:
        return f"TorchTensor<{self.dtype.name},{list(self.raw.shape)}>({self.name!r})"

    def chunks(self) -> Iterator[memoryview]:
        """The tensor's bytes in ONNX's order, in pieces; a piece is valid until the next one."""
        if self.raw.layout is not torch.strided:  # sparse and the like have no strided rows
            yield from _pieces(self.raw.to_dense())
        else:
            yield from _pieces(self.raw)

    def tobytes(self) -> bytes:
        return b"".join(self.chunks())

    def tofile(self, file: Any) -> None:
        for chunk in self.chunks():
            file.write(chunk)

    def numpy(self) -> np.ndarray:
        """The values as numpy has them: a view of the same memory where that is possible.

        It is read-only: a weight must not change under those who share it.
        """
        dense = self.raw if self.raw.layout is torch.strided else self.raw.to_dense()
        flat = _bytes_of(_plain(dense)).view(self.dtype.numpy())
        flat.flags.writeable = False
        return flat.reshape(self.shape.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def region(self) -> tuple | None:
        """A key that two tensors share when they are the same bytes of the same memory."""
        t = self.raw
        if t.layout is not torch.strided or t.numel() == 0:
            return None
        where = (t.device, t.data_ptr(), self.nbytes)
        if t.is_contiguous() and not (t.is_conj() or t.is_neg()):
            return where
        return (*where, t.dtype, t.shape, t.stride(), t.is_conj(), t.is_neg())


class StreamedTensor(ir.LazyTensor):
    """An ONNX tensor whose bytes come from somewhere else, piece by piece, when they are asked for.

    `content` is one of `hx.contents`.
    """

    def __init__(self, content: Any, name: str | None = None) -> None:
        super().__init__(
            lambda: TorchTensor(content.load()),
            dtype=onnx_dtype(content.dtype),
            shape=ir.Shape(list(content.shape)),
            cache=False,
            name=name,
        )
        self.content = content

    def chunks(self) -> Iterator[memoryview]:
        return self.content.chunks()

    def region(self) -> Any:
        return self.content.region()

    def tobytes(self) -> bytes:
        return b"".join(map(bytes, self.chunks()))

    def tofile(self, file: Any) -> None:
        for chunk in self.chunks():
            file.write(chunk)


def as_stored(constant: Constant, name: str) -> TorchTensor | StreamedTensor:
    """What an initializer of this name holds."""
    if isinstance(constant, Absent):
        return StreamedTensor(constant.content, name)
    return TorchTensor(constant.tensor, name)


def _refuse_what_has_no_bytes(tensor: torch.Tensor, name: str | None) -> None:
    what = f"the tensor {name!r}" if name else "a tensor"
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        raise Unsupported(
            f"{what} has a shape but no values (it is a meta or fake tensor)",
            hint="load the model's weights before it is exported",
        )
    if is_traceable_wrapper_subclass(tensor):
        raise Unsupported(
            f"{what} is a {type(tensor).__name__}, which wraps other tensors",
            hint="turn it into a plain tensor before the export",
        )
    if tensor.is_quantized:
        raise Unsupported(
            f"{what} is a quantized tensor", hint="export its integers, scale and zero point"
        )


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same values on the CPU, in row-major order; the tensor itself when it is so already."""
    plain = tensor.resolve_conj().resolve_neg().contiguous().cpu()
    # A single element counts as contiguous whatever its stride is; its bytes cannot be seen then.
    if plain.numel() == 1 and plain.dim() and plain.stride(-1) != 1:
        return plain.clone(memory_format=torch.contiguous_format)
    return plain


def _bytes_of(tensor: torch.Tensor) -> np.ndarray:
    """The memory of a plain tensor as bytes, kept alive by what is returned."""
    return tensor.reshape(-1).view(torch.uint8).numpy()


def _pieces(tensor: torch.Tensor) -> Iterator[memoryview]:
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return
    ready = tensor.is_cpu and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
    if ready or size <= PIECE:
        yield _bytes_of(_plain(tensor)).data
        return
    rows = PIECE * len(tensor) // size
    if rows:
        for part in tensor.split(rows):
            yield from _pieces(part)
    else:
        for row in tensor:
            yield from _pieces(row)

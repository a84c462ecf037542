"""Weights in onnx_ir's form: the contents of the initializers of `program.model`, without a copy.

Both answer to `onnx_ir.TensorProtocol`, and add `chunks()`: their bytes as a file takes them.
Imports torch and onnx_ir: import this module late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from hx import dtypes, tensor_bytes
from hx.weights.contents import Content, Held


class TorchTensor(ir.Tensor):
    """An ONNX tensor whose bytes are a torch tensor's, read when they are asked for."""

    def __init__(
        self, tensor: torch.Tensor, name: str | None = None, doc_string: str | None = None
    ) -> None:
        tensor_bytes.refuse_what_has_none(tensor, name)
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
        return tensor_bytes.chunks(self.raw)

    def tobytes(self) -> bytes:
        return b"".join(self.chunks())

    def tofile(self, file: Any) -> None:
        for chunk in self.chunks():
            file.write(chunk)

    def numpy(self) -> np.ndarray:
        return tensor_bytes.as_numpy(self.raw)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def region(self) -> tuple | None:
        return tensor_bytes.region(self.raw)


class StreamedTensor(ir.LazyTensor):
    """An ONNX tensor whose bytes come from somewhere else, piece by piece, when they are asked for.

    `content` is one of `hx.contents`.
    """

    def __init__(self, content: Content, name: str | None = None) -> None:
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


def as_tensor(content: Content, name: str) -> TorchTensor | StreamedTensor:
    """Wrap contents as the tensor of an initializer with this name."""
    if isinstance(content, Held):
        return TorchTensor(content.tensor, name)
    return StreamedTensor(content, name)


def onnx_dtype(dtype: torch.dtype) -> ir.DataType:
    return ir.DataType(dtypes.number(dtype))

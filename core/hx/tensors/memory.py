"""The bytes of a torch tensor as ONNX wants them, without a copy of its memory.

They are views of the tensor's own memory wherever that is already in ONNX's order, and copies of
at most `PIECE` bytes elsewhere (transposed, on another device, conjugated). Imports torch: import
it late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from hx.errors import Unsupported
from hx.tensors import dtypes
from hx.words import a

PIECE = 16 << 20


def chunks(tensor: torch.Tensor) -> Iterator[memoryview]:
    """The tensor's bytes in ONNX's order, in pieces; a piece is valid until the next one."""
    return _pieces(_dense(tensor.detach()))


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The values as numpy has them: a view of the same memory where that is possible.

    It is read-only: a weight must not change under those who share it.
    """
    import onnx

    kind = onnx.helper.tensor_dtype_to_np_dtype(dtypes.number(tensor.dtype))
    flat = _bytes_of(_plain(_dense(tensor.detach()))).view(kind)
    flat.flags.writeable = False
    return flat.reshape(tuple(tensor.shape))


def of_numpy(array: Any) -> torch.Tensor:
    """A tensor of what numpy has, also of the dtypes that it has from ml_dtypes alone."""
    array = np.asarray(array)
    if array.dtype.kind == "V":
        dtype = getattr(torch, array.dtype.name)
        return torch.from_numpy(np.array(array).view(f"u{array.itemsize}")).view(dtype)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def region(tensor: torch.Tensor) -> tuple | None:
    """A key that two tensors share when they are the same bytes of the same memory."""
    size = tensor.numel() * tensor.element_size()
    if tensor.layout is not torch.strided or not size:
        return None
    where = (tensor.device, tensor.data_ptr(), size)
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        return where
    return (*where, tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.is_conj(),
            tensor.is_neg())  # fmt: skip


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds others, which have the bytes."""
    kind = type(tensor)
    plain = kind is torch.Tensor or kind is torch.nn.Parameter
    return not plain and is_traceable_wrapper_subclass(tensor)


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether its memory was given back: libraries that shard weights do, between two calls."""
    if tensor.is_nested or tensor.is_meta or tensor.layout is not torch.strided:
        return False
    if not tensor.numel() or is_wrapper(tensor) or type(tensor).__name__ == "FakeTensor":
        return False
    last = tensor.storage_offset()
    if tensor.is_contiguous():
        last += tensor.numel() - 1
    else:
        last += sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride()))
    try:
        return (last + 1) * tensor.element_size() > tensor.untyped_storage().nbytes()
    except NotImplementedError:
        return False  # it stands for another tensor, in a transform of torch.func


def refuse_what_has_none(tensor: torch.Tensor, name: str | None) -> None:
    """That a tensor has bytes, and of a type that ONNX knows."""
    what = f"the tensor {name!r}" if name else "a tensor"
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        raise Unsupported(
            f"{what} has a shape but no values (it is a meta or fake tensor)",
            hint="load the model's weights before it is exported",
        )
    if is_wrapper(tensor):
        raise Unsupported(
            f"{what} is {a(tensor)}, which wraps other tensors",
            hint="turn it into a plain tensor before the export",
        )
    if tensor.is_quantized:
        raise Unsupported(
            f"{what} is a quantized tensor", hint="export its integers, scale and zero point"
        )
    dtypes.number(tensor.dtype)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """What is sparse, or the like, has no strided rows."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


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

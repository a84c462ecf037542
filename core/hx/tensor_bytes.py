"""Bytes of a torch tensor in ONNX's form, without a copy of its memory.

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

from hx import dtypes
from hx.budget import BUDGET
from hx.errors import Unsupported
from hx.text import with_article


def chunks(tensor: torch.Tensor) -> Iterator[memoryview]:
    """Yield the tensor's bytes in ONNX's order, in pieces; a piece is valid until the next one."""
    return _pieces(_dense(tensor.detach()))


def as_tensor(x: Any) -> Any:
    """Return a copy of an array of numbers as a tensor; anything else as it is."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
        return torch.from_numpy(np.array(x))
    return x


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return the values as a numpy array: a view of the same memory where that is possible.

    It is read-only: a weight must not change under those who share it.
    """
    import onnx

    kind = onnx.helper.tensor_dtype_to_np_dtype(dtypes.number(tensor.dtype))
    flat = _bytes_of(_plain(_dense(tensor.detach()))).view(kind)
    flat.flags.writeable = False
    return flat.reshape(tuple(tensor.shape))


def of_numpy(array: Any) -> torch.Tensor:
    """Return a tensor of a numpy array, also for the dtypes that numpy has only from ml_dtypes."""
    array = np.asarray(array)
    if array.dtype.kind == "V":
        dtype = getattr(torch, array.dtype.name)
        return torch.from_numpy(np.array(array).view(f"u{array.itemsize}")).view(dtype)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def region(tensor: torch.Tensor) -> tuple | None:
    """Return a key that two tensors share when they are the same bytes of the same memory."""
    size = tensor.numel() * tensor.element_size()
    if tensor.layout is not torch.strided or not size:
        return None
    where = (tensor.device, tensor.data_ptr(), size)
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        return where
    return (*where, tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.is_conj(),
            tensor.is_neg())  # fmt: skip


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Return True if a tensor holds other tensors, which have the bytes."""
    kind = type(tensor)
    plain = kind is torch.Tensor or kind is torch.nn.Parameter
    return not plain and is_traceable_wrapper_subclass(tensor)


def is_freed(tensor: torch.Tensor) -> bool:
    """Return True if its memory was given back, as libraries do that shard weights."""
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
        return False  # a wrapper for another tensor, in a transform of torch.func


def refuse_what_has_none(tensor: torch.Tensor, name: str | None) -> None:
    """Raise Unsupported for a tensor without bytes, or with a type that ONNX does not know."""
    what = f"the tensor {name!r}" if name else "a tensor"
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        raise Unsupported(
            f"{what} has a shape but no values (it is a meta or fake tensor)",
            hint="load the model's weights before it is exported",
        )
    if is_wrapper(tensor):
        raise Unsupported(
            f"{what} is {with_article(tensor)}, which wraps other tensors",
            hint="turn it into a plain tensor before the export",
        )
    if tensor.is_quantized:
        raise Unsupported(
            f"{what} is a quantized tensor", hint="export its integers, scale and zero point"
        )
    dtypes.number(tensor.dtype)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense copy of a sparse tensor: only dense ones have strided rows."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values on the CPU, in row-major order; the tensor itself if it is that."""
    plain = tensor.resolve_conj().resolve_neg().contiguous().cpu()
    # A single element counts as contiguous with any stride, but cannot be viewed as bytes then.
    if plain.numel() == 1 and plain.dim() and plain.stride(-1) != 1:
        return plain.clone(memory_format=torch.contiguous_format)
    return plain


def _bytes_of(tensor: torch.Tensor) -> np.ndarray:
    """Return the memory of a plain tensor as bytes; the result keeps it alive."""
    return tensor.reshape(-1).view(torch.uint8).numpy()


def _pieces(tensor: torch.Tensor) -> Iterator[memoryview]:
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return
    ready = tensor.is_cpu and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
    if ready or size <= BUDGET.bytes.piece:
        yield _bytes_of(_plain(tensor)).data
        return
    rows = BUDGET.bytes.piece * len(tensor) // size
    if rows:
        for part in tensor.split(rows):
            yield from _pieces(part)
    else:
        for row in tensor:
            yield from _pieces(row)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return True if two tensors of one dtype and shape hold the same bits, on any devices."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a is b or region(a) == region(b) is not None:
        return True
    first, second = bits(a), bits(b)
    return torch.equal(first, second.to(first.device))


def same_numbers(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return True if two tensors of one dtype and shape hold the same numbers: NaN equals NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return torch.equal(a, b) or bool(equal_numbers(a, b).all())


def equal_numbers(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mark the elements that are the same number in two tensors: NaN equals NaN."""
    return (a == b) | ((a != a) & (b != b))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor in order, as a flat tensor of bytes."""
    flat = tensor.detach().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj()).reshape(-1)
    if not flat.numel():
        return flat
    # A single element counts as contiguous whatever its stride is.
    whole = flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)
    return whole.view(torch.uint8)


def few_contents(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return what a tensor of few elements holds, to compare it with others; empty for other ones."""
    if tensor.layout is not torch.strided or is_wrapper(tensor) or is_freed(tensor):
        return ()
    if tensor.numel() > BUDGET.elements.counter or tensor.device.type != "cpu":
        return ()
    return tensor.dtype, tensor.shape, bytes(bits(tensor).tolist())


def storage_key(tensor: torch.Tensor) -> int:
    """Identify the memory behind a tensor, while it lives."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse and other tensors without a storage
        return id(tensor)


Geometry = tuple[torch.Size, tuple[int, ...], int]


def geometry(tensor: torch.Tensor) -> Geometry:
    try:
        return tensor.size(), tensor.stride(), int(tensor.storage_offset())
    except (NotImplementedError, RuntimeError):
        return tensor.size(), (), 0


def memory_order(tensor: torch.Tensor) -> list[int] | None:
    """Return the axes from the slowest to the fastest, if elements lie one after the other."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda a: (-strides[a], a))
    dense = tensor.permute(order).is_contiguous() and not tensor.storage_offset()
    return order if dense else None


_ROWS_FIRST = (torch.sparse_csr, torch.sparse_bsr)
_COLUMNS_FIRST = (torch.sparse_csc, torch.sparse_bsc)


def sparse_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the tensors with the contents of a sparse one, without a copy where possible."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in _ROWS_FIRST:
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in _COLUMNS_FIRST:
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor.to_dense(),)  # oneDNN keeps it in an order of its own

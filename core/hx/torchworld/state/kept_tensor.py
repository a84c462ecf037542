"""A tensor of a model, as it was, with its contents where these are copied."""

from __future__ import annotations

import torch

from ...tensor_bytes import is_freed, same_numbers, sparse_parts


class KeptTensor:
    """One tensor of the model, as it was."""

    def __init__(self, name: str, kind: str, tensor: torch.Tensor) -> None:
        self.name, self.kind, self.tensor = name, kind, tensor
        self.alias = tensor.detach()  # keeps the storage, if `.data` is given another one
        self.version = version_of(tensor)
        self.requires_grad = tensor.requires_grad
        self.grad = tensor.grad if tensor.is_leaf else None
        self.copy: torch.Tensor | None = None

    def keep(self) -> None:
        if self.copy is None and not is_freed(self.alias):
            self.copy = self.alias.clone()  # detached, and so is its copy

    @property
    def untouched(self) -> bool:
        """Return True if nothing can have happened to a tensor: for most, a look at a few numbers."""
        t, a = self.tensor, self.alias
        if t.is_nested:
            return True  # it has no contents to read or write
        return (
            self.copy is None
            and self.version is not None
            and t._version == self.version
            and t.layout is torch.strided
            and not _moved(t, a)
            and t.shape == a.shape
            and t.stride() == a.stride()
            and t.dtype is a.dtype
            and t.requires_grad is self.requires_grad
            and (not t.is_leaf or t.grad is self.grad)
        )

    @property
    def rebound(self) -> bool:
        """Return True if `tensor.data = other` gave it another storage, or a resize another shape."""
        t, a = self.tensor, self.alias
        if t.shape != a.shape or t.dtype != a.dtype or t.device != a.device:
            return True
        if t.layout != torch.strided or a.layout != torch.strided:
            return False
        return _moved(t, a) or t.stride() != a.stride()

    @property
    def written(self) -> bool:
        """Return True if the contents of its storage changed, as far as can be told.

        Batch norm writes its statistics, and `.data` any tensor, without raising the version: with
        a copy at hand the contents are compared.
        """
        if is_freed(self.alias):
            return False  # there is nothing in it
        if self.copy is not None:
            return not _equal(self.alias, self.copy)
        return self.version is not None and version_of(self.alias) != self.version

    @property
    def changed(self) -> bool:
        if not self.rebound:
            return self.written
        return self.copy is None or not same_contents(self.tensor, self.copy)

    def put_back(self) -> str:
        """Restore the tensor; returns its name if that is not possible."""
        written = self.written
        if self.rebound:
            self.tensor.data = self.alias
        if written and self.copy is not None:
            # On the data: autograd does not allow it on a leaf, nor an expanded tensor at all.
            with torch.inference_mode() if self.version is None else torch.no_grad():
                _once(self.alias.data, self.alias).copy_(_once(self.copy, self.alias))
        if self.tensor.requires_grad != self.requires_grad and self.tensor.is_leaf:
            self.tensor.requires_grad_(self.requires_grad)
        if self.tensor.is_leaf and self.tensor.grad is not self.grad:
            self.tensor.grad = self.grad
        return self.name if written and self.copy is None else ""


def version_of(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _moved(tensor: torch.Tensor, alias: torch.Tensor) -> bool:
    """Return True if a tensor has other memory; a wrapper of another tensor cannot be asked."""
    try:
        return tensor.data_ptr() != alias.data_ptr()
    except (NotImplementedError, RuntimeError):
        return False


def same_contents(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Compare contents, where NaN equals NaN."""
    if a is b:
        return True
    if a.is_nested or b.is_nested:
        return False
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.layout != b.layout:
        return False
    return is_freed(a) or is_freed(b) or _equal(a, b)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return True if two tensors that agree in all else have the same contents."""
    if a.is_meta:
        return True
    if a.layout is not torch.strided:
        # Compared by what they hold: PyTorch has no `equal` for them.
        return all(
            same_contents(x, y) for x, y in zip(sparse_parts(a), sparse_parts(b), strict=True)
        )
    return same_numbers(a, b)


def _once(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Drop the dimensions that an expand() repeats: their memory cannot be written twice."""
    for dim, stride in enumerate(like.stride() if like.layout == torch.strided else ()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor

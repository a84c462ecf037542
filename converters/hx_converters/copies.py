"""Operators that differ from another one only in whether they share memory."""

from __future__ import annotations

import inspect

from hx import case, converter

from . import diagonals, indexing, shape, tensors, windows

_SAME = {
    "alias_copy": tensors.same, "detach_copy": tensors.same, "diagonal_copy": diagonals.diagonal,
    "expand_copy": shape.expand, "narrow_copy": indexing.narrow, "permute_copy": shape.permute,
    "select_copy": indexing.select, "slice_copy": indexing.slice_,
    "split_with_sizes_copy": shape.split, "split_copy": shape.split,
    "squeeze_copy": shape.squeeze, "t_copy": shape.t, "transpose_copy": shape.transpose,
    "unbind_copy": shape.unbind, "unfold_copy": windows.unfold, "unsafe_chunk": shape.chunk,
    "unsafe_split": shape.split, "unsafe_split_with_sizes": shape.split,
    "unsqueeze_copy": shape.unsqueeze, "view_copy": shape.reshape,
}  # fmt: skip


def _named(convert):
    def copy(op, *args, **kwargs):
        return convert(op, *args, **kwargs)

    copy.__signature__ = inspect.signature(convert)  # hx matches keyword arguments by it
    return copy


_CASES: dict[str, list] = {
    "expand_copy": ["float32[n,1]", [-1, 3]], "narrow_copy": ["float32[n,5]", 1, 1, 3],
    "permute_copy": ["float32[n,2,3]", [2, 0, 1]], "select_copy": ["float32[n,5]", 1, 2],
    "slice_copy": ["float32[n,5]", 1, 1, 4, 2], "split_with_sizes_copy": ["float32[n,5]", [2, 3], 1],
    "split_copy": ["float32[n,5]", 2, 1], "squeeze_copy": ["float32[n,1]", 1],
    "transpose_copy": ["float32[n,2,3]", 0, 2], "unbind_copy": ["float32[n,3]", 1],
    "unfold_copy": ["float32[n,7]", 1, 3, 2], "unsafe_chunk": ["float32[n,6]", 3, 1],
    "unsafe_split": ["float32[n,5]", 2, 1], "unsafe_split_with_sizes": ["float32[n,5]", [2, 3], 1],
    "unsqueeze_copy": ["float32[n,3]", 1], "view_copy": ["float32[n,6]", [-1, 2, 3]],
}  # fmt: skip

CONVERTERS = [
    converter(f"torch.{name}", cases=[case(*_CASES.get(name, ["float32[n,3]"]))])(_named(convert))
    for name, convert in _SAME.items()
]

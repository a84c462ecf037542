"""Operators that differ from another one in what they share memory with, and in nothing else."""

from __future__ import annotations

from hx import converter

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

    return copy


CONVERTERS = [converter(f"torch.{name}")(_named(convert)) for name, convert in _SAME.items()]

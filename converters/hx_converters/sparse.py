"""Sparse tensors that the model makes, and their dense form."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch


@converter("torch.sparse_coo_tensor")
def sparse_coo_tensor(op, indices, values=None, size=None, *, dtype=None, device=None,
                      check_invariants=None, is_coalesced=None):  # fmt: skip
    if not hasattr(values, "rank") or values.rank != 1:
        return NotImplemented
    if size is None:
        if op.contents(indices) is None:
            op.refuse(
                "how large a sparse tensor is follows from its indices, which only the run knows",
                hint="give its size: torch.sparse_coo_tensor(indices, values, (n, m))",
            )
        size = op.result.shape
    if values.dtype == torch.bool or dtype == torch.bool:
        return NotImplemented  # truths do not add up
    places = op.cast(op.value(indices), torch.int64)
    return op.sparse(places, op.cast(values, dtype or values.dtype), [op.size(n) for n in size])


@converter("torch.Tensor.coalesce")
def coalesce(op, self):
    """What comes twice is added up wherever it is used."""
    return op.sparse(*op.elements(self), self.shape)


@converter(
    "torch.Tensor.to_dense",
    cases=[case("float32[n,4]"), case("float32[n,4]", lambda: torch.float64)],
)
def to_dense(op, self, dtype=None, *, masked_grad=None):
    return op.cast(op.dense(self), dtype or self.dtype)


@converter("torch.nested.nested_tensor", "torch.nested.as_nested_tensor", "torch.nested.narrow",
           "torch.nested.nested_tensor_from_jagged")  # fmt: skip
def nested(op, *args, **kwargs):
    op.refuse(
        "the rows of a graph's tensors are all of one length, and those of a nested tensor are not",
        "use a padded tensor and a mask: torch.nn.utils.rnn.pad_sequence makes one of a list",
    )

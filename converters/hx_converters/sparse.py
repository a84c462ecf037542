"""Sparse tensors made by the model, and their dense form."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted
from ._sparse import summed
from .ordering import places


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
        return NotImplemented  # bools cannot be added
    places = op.cast(op.value(indices), torch.int64)
    return op.sparse(places, op.cast(values, dtype or values.dtype), [op.size(n) for n in size])


@converter("torch.Tensor.coalesce")
def coalesce(op, self):
    """Keep duplicate elements: every use adds them up."""
    return op.sparse(*op.elements(self), self.shape)


@converter("torch._sparse_sum")
def sparse_sum(op, input, dim=None, *, dtype=None):
    return summed(op, input, dim)


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


@converter("torch._convert_indices_from_coo_to_csr",
           cases=[case(lambda: torch.tensor([0, 0, 2, 5]), 6),
                  case(lambda: torch.tensor([1, 1, 4]), 5, out_int32=True)])  # fmt: skip
def convert_indices_from_coo_to_csr(op, self, size, *, out_int32=False):
    """Return the start of each row among sorted row numbers, and the end of the last one."""
    return places(op, self, counted(op, size + 1, self.dtype), False, op.result.dtype)


@converter("torch._convert_indices_from_csr_to_coo",
           cases=[case(lambda: torch.tensor([0, 2, 2, 3]), "int64[3]<9"),
                  case(lambda: torch.tensor([0, 1, 3]), "int64[3]<9", out_int32=True, transpose=True)])  # fmt: skip
def convert_indices_from_csr_to_coo(op, crow_indices, col_indices, *, out_int32=False,
                                    transpose=False):  # fmt: skip
    if crow_indices.rank != 1:
        return NotImplemented
    steps = counted(op, col_indices.shape[0], crow_indices.dtype)
    ends = op.Slice(crow_indices, [1], [2**62], [0])
    rows = places(op, ends, steps, True, op.result.dtype)
    columns = op.cast(col_indices, op.result.dtype)
    pair = (columns, rows) if transpose else (rows, columns)
    return op.Concat(*(op.Unsqueeze(v, [0]) for v in pair), axis=0)

"""Memory that sparse tensors hold, and kinds of tensors that a graph cannot have.

A sparse tensor lies in the memory of other tensors, which share it without sharing an entry: so
nobody may write there while the model is recorded. See `graph.sparse_values` for what such a tensor
is in the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...errors import Unsupported, Where
from ...graph.sparse_values import DENSE_HINT, written_to
from ...ir.value import Constant, Elements
from ...tensor_bytes import sparse_parts

if TYPE_CHECKING:
    from ..recording import Recording


# Memory.


def hold(recording: Recording, tensor: torch.Tensor) -> None:
    """Forbid writes to the memory that a sparse tensor holds, from now on."""
    for part in sparse_parts(tensor):
        storage = part.untyped_storage()
        recording.memory.sparse_storages[storage._cdata] = (
            storage  # kept: no other one gets its place
        )


def sparse_constant(recording: Recording, tensor: torch.Tensor, name: str) -> Constant:
    """The constant of a sparse tensor that no input changes."""
    if tensor.is_nested:
        require_known("the model holds or makes", tensor, _where(recording))
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        hold(recording, tensor)
        made = recording.builder.constant(tensor.detach(), name)
        if recording.model.guard is not None and any(
            map(recording.model.guard.has_changed, sparse_parts(tensor))
        ):
            if name:
                raise written_to(_where(recording))
            made.freeze()  # what it is made of is put back when the recording ends
    made.sparse = Elements()
    return made


def require_unheld(recording: Recording, tensor: torch.Tensor, key: int) -> None:
    """Raise if a tensor that is about to be written to is sparse, or part of a sparse one."""
    if tensor.layout is not torch.strided or key in recording.memory.sparse_storages:
        raise written_to(_where(recording))


def _where(recording: Recording) -> Where:
    """The user's line, also where a converter has the call run."""
    origin = recording.builder.origin
    return recording.position.where() if origin is None or not origin.file else origin.where


# Tensors that a graph cannot have.


def require_plain(what: str, x: Any) -> None:
    """Raise if an input or output is sparse or nested: a file has dense, rectangular ones."""
    if not isinstance(x, torch.Tensor) or (x.layout is torch.strided and not x.is_nested):
        return
    if x.is_nested:
        raise _nested(f"{what} is a nested tensor", None)
    raise Unsupported(
        f"{what} is {_kind(x)}, and a graph takes and returns dense tensors only",
        hint="give the model its dense form, or its indices and values as inputs of their own and "
        "make it inside with torch.sparse_coo_tensor; return y.to_dense()",
    )


def require_known(what: str, x: torch.Tensor, where: Where) -> None:
    """Raise if a result is of a kind that the recording cannot follow."""
    if x.is_nested:
        raise _nested(f"{what} a nested tensor", where)
    if x.layout is not torch.strided:
        raise Unsupported(
            f"{what} {_kind(x)} that depends on the inputs",
            where=where,
            why="a graph has dense tensors only: it can hold the dense form of a sparse tensor, and "
            "its products with dense ones",
            hint=DENSE_HINT,
        )


def require_answered(target: str, tensors: list[torch.Tensor], where: Where) -> None:
    """Raise a clear error if a call without a converter gets a sparse tensor."""
    for x in tensors:
        if x.layout is not torch.strided:
            raise Unsupported(
                f"{target} is given {_kind(x)}, and has no form in ONNX for it",
                where=where,
                hint=DENSE_HINT,
            )


def _kind(x: torch.Tensor) -> str:
    kind = str(x.layout).removeprefix("torch.")
    return f"a sparse tensor ({kind})" if "sparse" in kind else f"a tensor in the layout {kind}"


def _nested(what: str, where: Where | None) -> Unsupported:
    return Unsupported(
        what,
        where=where,
        why="the rows of a graph's tensors are all of one length",
        hint="use a padded tensor and a mask: torch.nn.utils.rnn.pad_sequence makes one of a list",
    )

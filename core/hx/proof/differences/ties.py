"""Indices of equal elements: nobody promises which of them TopK picks.

PyTorch does not keep the order of equal elements in topk and sort, and may return any of several in
kthvalue and median; ONNX takes the first. Such indices are compared by what they pick: at each
place they must pick the same as PyTorch's, exactly, and none twice where PyTorch picks each once.
That counts only for direct results of TopK, and only if the elements that it orders are the model's
own: among elements that the file has computed or rounded, some may be equal that the model's are
not.

ArgMax and ArgMin are not among them: both PyTorch and ONNX promise the first. An exception is the
ArgMax of torch.mode, which is the place of any number that is equal to the most frequent one.

If TopK does not sort, nobody promises an order of the elements: they and their indices are compared
by what they pick in any order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Operators between the elements and TopK that keep unequal elements unequal; Cast only if the
# other dtype holds all numbers of the first.
_OF_MODE = ("torch.mode", "torch.Tensor.mode", "aten::mode")
_EXACT = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Cast")


@dataclass(frozen=True)
class Pick:
    """Index into `source` along `axis`, which comes from the node called `node`.

    `single` is one of several, taken from each row: the order of a row cannot be seen in it.
    """

    node: str
    source: str
    axis: int
    single: bool
    unsorted: bool = False
    elements: bool = False  # the elements themselves are picked, without an index


def picks(graph: Any, known: Mapping[str, torch.Tensor], names: Iterable[str]) -> dict[str, Pick]:
    """Return the names that are indices from TopK; `known` holds the model's own values."""
    makers = {name: node for node in graph.node for name in node.output if not node.domain}
    found = ((name, _pick(name, makers, known)) for name in names)
    return {name: pick for name, pick in found if pick and _exact(pick.source, makers, known)}


def same(pick: Pick, x: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> bool:
    """Return True if two indices into x pick elements that are equal."""
    from ...tensor_bytes import equal_numbers, same_numbers

    if pick.elements:
        return same_numbers(*(v.sort(pick.axis).values for v in (got, want)))
    if got.dtype != want.dtype or got.shape != want.shape or want.is_floating_point():
        return False
    axis = pick.axis % x.dim()
    one = [1 if i == axis else size for i, size in enumerate(x.shape)]
    if want.numel() * x.shape[axis] == x.numel():  # the axis may have been removed
        got, want = got.reshape(one), want.reshape(one)
    elif pick.single or [1 if i == axis else n for i, n in enumerate(want.shape)] != one:
        return False
    got, want = got.long(), want.long()
    if not all(bool(((i >= 0) & (i < x.shape[axis])).all()) for i in (got, want)):
        return False
    a, b = x.gather(axis, got), x.gather(axis, want)
    if pick.unsorted:
        a, b = a.sort(axis).values, b.sort(axis).values
    equal = equal_numbers(a, b)
    return bool(equal.all()) and not bool((_twice(got, axis) & ~_twice(want, axis)).any())


def _twice(index: torch.Tensor, axis: int) -> torch.Tensor:
    """Mark the rows in which an index occurs more than once."""
    return (index.sort(axis).values.diff(dim=axis) == 0).any(axis)


def _pick(name: str, makers: Mapping[str, Any], known: Mapping[str, Any]) -> Pick | None:
    """Trace an index back to its TopK, through the nodes that a converter puts after it."""
    along: list[int] = []
    while (node := makers.get(name)) is not None:
        if node.op_type == "TopK":
            axis, source = _axis(node, -1), node.input[0]
            unsorted = any(a.name == "sorted" and not a.i for a in node.attribute) and not along
            if name not in node.output[1:]:
                return Pick(node.name, source, axis, False, True, True) if unsorted else None
            if any(axis != other for other in along):
                return None
            return Pick(node.name, source, axis, bool(along), unsorted)
        if node.op_type == "ArgMax" and (source := _place_of_mode(node, makers)):
            return Pick(node.name, source, _axis(node, 0), True)
        if node.op_type not in ("Gather", "Squeeze") or node.input[0] in known:
            return None  # the file must make the same as the model's own value
        if node.op_type == "Gather":
            along.append(_axis(node, 0))
        name = node.input[0]
    return None


def _place_of_mode(node: Any, makers: Mapping[str, Any]) -> str:
    """Return the elements among which torch.mode finds its number, if this node gives its place."""
    if not any(p.key == "hx.target" and p.value in _OF_MODE for p in node.metadata_props):
        return ""
    cast = makers.get(node.input[0])
    equal = makers.get(cast.input[0]) if cast is not None and cast.op_type == "Cast" else None
    return equal.input[0] if equal is not None and equal.op_type == "Equal" else ""


def _axis(node: Any, default: int) -> int:
    return next((a.i for a in node.attribute if a.name == "axis"), default)


def _exact(name: str, makers: Mapping[str, Any], known: Mapping[str, torch.Tensor]) -> bool:
    """Return True if these are the model's own elements, and no two of them have become equal."""
    from ... import dtypes

    kinds = []
    while name not in known:
        node = makers.get(name)
        if node is None or node.op_type not in _EXACT:
            return False
        if node.op_type == "Cast":
            to = next(a.i for a in node.attribute if a.name == "to")
            kinds.append(dtypes.FROM_NUMBER.get(to))
        name = node.input[0]
    kinds.append(known[name].dtype)
    return all(_holds(wide, kind) for wide, kind in itertools.pairwise(kinds))


def _holds(wide: Any, kind: Any) -> bool:
    """Return True if a dtype has all numbers of another one."""
    import torch

    if wide == kind or kind is torch.bool:
        return True
    if wide in (None, torch.bool) or wide.is_floating_point != kind.is_floating_point:
        return False
    if kind.is_floating_point:
        a, b = torch.finfo(wide), torch.finfo(kind)
        return a.eps <= b.eps and a.max >= b.max and a.tiny <= b.tiny
    c, d = torch.iinfo(wide), torch.iinfo(kind)
    return c.min <= d.min and c.max >= d.max

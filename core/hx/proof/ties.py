"""Indices of equal elements: which of them TopK picks is nobody's promise.

PyTorch says of topk and sort that the order of equal elements is not kept, and of kthvalue and
median that any of several may be given; ONNX takes the first. Such indices are held against what
they pick: at each place they must pick what PyTorch's pick, exactly, and none twice where
PyTorch picks each once. That counts only for what TopK gives itself, and where the elements that
it orders are the model's own, as they are: in elements that the file has computed or rounded,
some may be equal that are not so for the model.

ArgMax and ArgMin are not among them: both PyTorch and ONNX promise the first.

Of TopK that does not sort, nobody promises in which order the elements come: they and their indices
are held against what they pick in any order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# What a converter makes of elements on their way to TopK without making two of them equal; Cast
# only where the other dtype holds all that the first one does.
_EXACT = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Cast")


@dataclass(frozen=True)
class Pick:
    """An index into `source` along `axis`, which the node called `node` gives.

    `single` is one of several, taken from each row: the order of a row cannot be seen in it.
    """

    node: str
    source: str
    axis: int
    single: bool
    unsorted: bool = False
    elements: bool = False  # what is picked itself, and no index


def picks(graph: Any, known: Mapping[str, torch.Tensor], names: Iterable[str]) -> dict[str, Pick]:
    """Those of the names that are indices which TopK gives; `known` is what the model has itself."""
    makers = {name: node for node in graph.node for name in node.output if not node.domain}
    found = ((name, _pick(name, makers, known)) for name in names)
    return {name: pick for name, pick in found if pick and _exact(pick.source, makers, known)}


def same(pick: Pick, x: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> bool:
    """Whether two indices into x pick elements that are equal."""
    if pick.elements:
        a, b = (v.sort(pick.axis).values for v in (got, want))
        return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    if got.dtype != want.dtype or got.shape != want.shape or want.is_floating_point():
        return False
    axis = pick.axis % x.dim()
    one = [1 if i == axis else size for i, size in enumerate(x.shape)]
    if want.numel() * x.shape[axis] == x.numel():  # the axis may be gone
        got, want = got.reshape(one), want.reshape(one)
    elif pick.single or [1 if i == axis else n for i, n in enumerate(want.shape)] != one:
        return False
    got, want = got.long(), want.long()
    if not all(bool(((i >= 0) & (i < x.shape[axis])).all()) for i in (got, want)):
        return False
    a, b = x.gather(axis, got), x.gather(axis, want)
    if pick.unsorted:
        a, b = a.sort(axis).values, b.sort(axis).values
    equal = (a == b) | ((a != a) & (b != b))
    return bool(equal.all()) and not bool((_twice(got, axis) & ~_twice(want, axis)).any())


def _twice(index: torch.Tensor, axis: int) -> torch.Tensor:
    """In which rows an index occurs more than once."""
    return (index.sort(axis).values.diff(dim=axis) == 0).any(axis)


def _pick(name: str, makers: Mapping[str, Any], known: Mapping[str, Any]) -> Pick | None:
    """From an index up to the TopK that gives it, over what a converter does to it after that."""
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
        if node.op_type not in ("Gather", "Squeeze") or node.input[0] in known:
            return None  # of what the model has itself, the file must make the same
        if node.op_type == "Gather":
            along.append(_axis(node, 0))
        name = node.input[0]
    return None


def _axis(node: Any, default: int) -> int:
    return next((a.i for a in node.attribute if a.name == "axis"), default)


def _exact(name: str, makers: Mapping[str, Any], known: Mapping[str, torch.Tensor]) -> bool:
    """Whether these are elements of the model's own, of which none has become equal to another."""
    from ..tensors import dtypes

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
    """Whether a dtype has all numbers of another one."""
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

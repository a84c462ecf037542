"""Sources: what each round reads or made in one tensor, stacked or along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ...errors import Unsupported
from ...graph.axes import moved
from ...graph.op import Op
from ...ir.shapes import PAST_EVERY_END
from ...ir.value import Constant, Node, Value

STACK = "Stack"  # see `collected_lists`


class RoundsDiffer(Unsupported):
    """Raised if the rounds are not alike."""

    def __init__(self) -> None:
        super().__init__("what the model does in each round does not become one loop")


class Source(Protocol):
    """Values of one shape, except along the axis `along`, if any, where each has its own length."""

    many: int  # in the recording
    shape: tuple  # of the first value

    @property
    def along(self) -> int | None: ...

    @property
    def length(self) -> Any:
        """Return the number of values, as the graph has it; None if only the code that cut them has it."""

    def at(self, op: Op, index: Any) -> Value:
        """Return one value; a scalar counts them, from 0, or back from -1."""

    def stacked(self, op: Op) -> Value:
        """Return all values, along a new first axis."""

    def joined(self, op: Op, first: int, count: int) -> Value:
        """Return `count` values, one behind the other along their own lengths."""


@dataclass(eq=False)
class Stacked:
    many: int
    shape: tuple
    value: Value
    length: Any
    along = None

    def at(self, op: Op, index: Any) -> Value:
        return op.Gather(self.value, index, axis=0)

    def stacked(self, op: Op) -> Value:
        return self.value

    def joined(self, op: Op, first: int, count: int) -> Value:
        raise RoundsDiffer


@dataclass(eq=False)
class Pieces:
    """Outputs of a Split, all of one length, or the last one shorter."""

    many: int
    shape: tuple
    whole: Value
    axis: int
    shorter: bool
    length = None

    @property
    def along(self) -> int | None:
        return self.axis if self.shorter else None

    def at(self, op: Op, index: Any) -> Value:
        each = self.shape[self.axis]
        if self.shorter:
            size = self.whole.size(self.axis)
            count = op.cast((size + (each - 1)) // each, torch.int64)
            zero = op.constant(0, torch.int64)
            index = op.Add(index, op.Where(op.Less(index, zero), count, zero))
            begin = op.Reshape(op.Mul(index, op.constant(each, torch.int64)), [1])
            end = op.Add(begin, op.constant([each], torch.int64))
            return op.Slice(self.whole, begin, end, [self.axis])
        places = op.Add(
            op.Mul(index, op.constant(each, torch.int64)), op.constant([*range(each)], torch.int64)
        )
        return op.Gather(self.whole, places, axis=self.axis)

    def joined(self, op: Op, first: int, count: int) -> Value:
        if first + count < self.many:
            raise RoundsDiffer
        each = self.shape[self.axis]
        return (
            op.Slice(self.whole, [first * each], [PAST_EVERY_END], [self.axis])
            if first
            else self.whole
        )

    def stacked(self, op: Op) -> Value:
        if self.shorter:
            raise RoundsDiffer
        shape, axis = self.shape, self.axis
        cut = op.Reshape(self.whole, op.sizes([*shape[:axis], -1, *shape[axis:]]))
        return moved(op, cut, len(shape) + 1, axis, 0)


@dataclass(eq=False)
class Mapped:
    """Values of a source, each passed through one operator that moves axes or casts."""

    many: int
    shape: tuple
    source: Source
    node: Node

    @property
    def length(self) -> Any:
        return self.source.length

    @property
    def along(self) -> int | None:
        axis = self.source.along
        if axis is None or self.node.op == "Cast":
            return axis
        moved = moved_axes(self.node)
        if self.node.op == "Squeeze":
            return axis - sum(each < axis for each in moved)
        kept = (each for each in range(len(self.shape)) if each not in moved)
        return list(kept)[axis]

    def at(self, op: Op, index: Any) -> Value:
        return self._of(op, self.source.at(op, index), 0)

    def stacked(self, op: Op) -> Value:
        return self._of(op, self.source.stacked(op), 1)

    def joined(self, op: Op, first: int, count: int) -> Value:
        return self._of(op, self.source.joined(op, first, count), 0)

    def _of(self, op: Op, value: Value, more: int) -> Value:
        name = self.node.op
        if name == "Cast":
            return op.cast(value, self.node.outputs[0].dtype)
        axes = [axis + more for axis in moved_axes(self.node)]
        return op.Unsqueeze(value, axes) if name == "Unsqueeze" else op.Squeeze(value, axes)


def moved_axes(node: Node) -> list[int]:
    """Return the axes of an Unsqueeze or a Squeeze, counted from the front."""
    value, axes = node.inputs
    assert value is not None and isinstance(axes, Constant)
    rank = max(value.rank, node.outputs[0].rank)
    return [int(axis) % rank for axis in axes.tensor.reshape(-1).tolist()]


def maps(node: Node) -> bool:
    """Return True if a node only moves axes, or casts."""
    if node.op == "Cast":
        return True
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    return node.op in ("Unsqueeze", "Squeeze") and axes is not None and axes.is_constant

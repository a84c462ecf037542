"""Where what each round reads, or made, is in one piece: stacked, or along an axis of a tensor."""

from __future__ import annotations

from builtins import len, range  # their own: `world` hooks those of the model
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ...graph.axes import moved
from ...graph.op import Op
from ...tensors.values import Constant, Node, Value


class Source(Protocol):
    """So many values of one shape."""

    many: int  # in the recording
    shape: tuple

    def at(self, op: Op, index: Any) -> Value:
        """One of them: a scalar counts them, from 0, or back from -1."""

    def stacked(self, op: Op) -> Value:
        """All of them, along a new first axis."""


@dataclass(eq=False)
class Stacked:
    many: int
    shape: tuple
    value: Value
    length: Any

    def at(self, op: Op, index: Any) -> Value:
        return op.Gather(self.value, index, axis=0)

    def stacked(self, op: Op) -> Value:
        return self.value


@dataclass(eq=False)
class Pieces:
    """What a Split gave, each as long as the others."""

    many: int
    shape: tuple
    whole: Value
    axis: int

    def at(self, op: Op, index: Any) -> Value:
        each = self.shape[self.axis]
        places = op.Add(
            op.Mul(index, op.constant(each, torch.int64)), op.constant([*range(each)], torch.int64)
        )
        return op.Gather(self.whole, places, axis=self.axis)

    def stacked(self, op: Op) -> Value:
        shape, axis = self.shape, self.axis
        cut = op.Reshape(self.whole, op.sizes([*shape[:axis], -1, *shape[axis:]]))
        return moved(op, cut, len(shape) + 1, axis, 0)


@dataclass(eq=False)
class Mapped:
    """What one operator that moves axes makes of each."""

    many: int
    shape: tuple
    source: Source
    node: Node

    def at(self, op: Op, index: Any) -> Value:
        return self._of(op, self.source.at(op, index), 0)

    def stacked(self, op: Op) -> Value:
        return self._of(op, self.source.stacked(op), 1)

    def _of(self, op: Op, value: Value, more: int) -> Value:
        name = self.node.op
        if name == "Cast":
            return op.cast(value, self.node.outputs[0].dtype)
        axes = [axis + more for axis in moved_axes(self.node)]
        return op.Unsqueeze(value, axes) if name == "Unsqueeze" else op.Squeeze(value, axes)


def moved_axes(node: Node) -> list[int]:
    """The axes of an Unsqueeze or a Squeeze, from the front."""
    value, axes = node.inputs
    assert value is not None and isinstance(axes, Constant)
    rank = max(value.rank, node.outputs[0].rank)
    return [int(axis) % rank for axis in axes.tensor.reshape(-1).tolist()]


def maps(node: Node) -> bool:
    """Whether it is one of those that only move axes, or cast."""
    if node.op == "Cast":
        return True
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    return node.op in ("Unsqueeze", "Squeeze") and axes is not None and axes.is_constant

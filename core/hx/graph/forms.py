"""Forms of nodes: equal nodes are checked and typed only once.

A model calls the same layers again and again. What the builder finds out about a node (that its
schema allows it, the dtypes and sizes of its outputs, which constants the numbers among its inputs
become) follows from the operator, its attributes, and what is known of its inputs. Those are the
key of a `Form`, from which the next such node is written as it is.
"""

from __future__ import annotations

from math import prod  # a name of its own: `builtin_hooks` replaces math.prod for the model
from typing import TYPE_CHECKING, Any

import torch

from ..budget import BUDGET
from ..ir.value import Absent, Constant, Node, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES = frozenset({Value, Constant, Absent})
_WORDS = frozenset({int, bool, str, type(None), torch.dtype})


def key_of(op: str, inputs: Sequence[Any], attributes: dict, count: int | None) -> tuple | None:
    """Return a key that equal nodes share; None for a node that is never shared.

    Numbers are in it with their types: 1, True and 1.0 are equal, but not the same.
    """
    key: list[Any] = [op, count]
    for x in inputs:
        kind = type(x)
        if kind in VALUES:
            shape = x.shape
            if shape is None or x.sparse is not None:
                return None
            if x.elements is not None or (kind is Constant and prod(shape) < BUDGET.elements.sizes):
                key.append(x)
            else:
                sizes = tuple([n if type(n) is int else n.poly for n in shape])
                key += (kind, x.dtype, x.fixed, sizes)
        elif (word := _word(x)) is None:
            return None
        else:
            key.append(word)
    for name, x in attributes.items():
        word = _word(x)
        if word is None:
            return None
        key += (name, word)
    return tuple(key)


def _word(x: Any) -> tuple | None:
    kind = type(x)
    if kind in _WORDS:
        return kind, x
    if kind is float:
        return kind, repr(x)  # 0.0 and -0.0 are equal, too
    if kind is list or kind is tuple:
        words = tuple([_word(each) for each in x])
        return None if None in words else words
    return None


class Form:
    """A node without its place in a graph."""

    __slots__ = ("attributes", "inputs", "op", "outputs")

    def __init__(self, node: Node, inputs: list[int | Value | None]) -> None:
        self.op, self.attributes = node.op, node.attributes
        # For each input, its place among the given ones, or the constant that a number became.
        self.inputs = inputs
        # Facts learnt later about an output, such as its elements, belong to that output alone.
        self.outputs = [value.like() for value in node.outputs]


def form_of(node: Node, given: Sequence[Any]) -> Form | None:
    """Return a node without its place in the graph; None if it cannot be reused with other inputs."""
    inputs: list[int | Value | None] = []
    for place, x in enumerate(node.inputs):
        if x is None or x is given[place]:
            inputs.append(place)
        elif x.is_constant:
            inputs.append(x)
        else:
            return None
    for made in node.outputs:
        # A size that is known when the call has run is that of this very output.
        sizes: Any = made.shape
        if sizes is None or any(type(n) is not int and n.poly.unsure for n in sizes):
            return None
    return Form(node, inputs)

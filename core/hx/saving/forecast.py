"""A forecast of the weights that a file will begin with, from the nodes recorded so far.

They are those that nodes read, in that order. But the weight of a layer waits for the next node,
which may be a normalization that is folded into it (see `batchnorm`).
"""

from __future__ import annotations

import functools

from ..graph import batchnorm, model_parts, transposed
from ..ir.value import Constant, Node
from ..weights import contents
from ..weights.contents import Content, Held
from .write_ahead import WriteAhead


class Forecast:
    """Queues the weights of nodes as they are recorded, to be written ahead."""

    def __init__(self, ahead: WriteAhead, folds: batchnorm.Folds) -> None:
        self._ahead, self._folds = ahead, folds
        self._layer: Node | None = None  # the next node may be folded into its weight
        self._put: dict[int, Constant] = {}  # by id

    def node(self, node: Node | None) -> None:
        """Take the next node; None when there is none."""
        layer, self._layer = self._layer, None
        if layer is not None:
            self._read(layer, node if node is not None and batchnorm.fits(layer, node) else None)
        if node is not None and batchnorm.is_layer(node):
            self._layer = node
        elif node is not None:
            self._read(node)

    def _read(self, node: Node, norm: Node | None = None) -> None:
        for place, value in enumerate(node.inputs):
            if not isinstance(value, Constant) or id(value) in self._put:
                continue
            tensor = value.tensor
            if not model_parts.is_early(value.name, tensor) or not tensor.is_cpu:
                continue
            self._put[id(value)] = value
            turned = transposed.content(node) if transposed.is_one(node) else None
            if turned is not None:
                self._ahead.put(
                    value, transposed.name_of(value), functools.partial(_as_it_is, turned)
                )
            elif norm is not None and place == 1:
                name = batchnorm.folded_name(value.name)
                self._ahead.put(value, name, functools.partial(_folded, self._folds, node, norm))
            else:  # the tensor as it is: a write may give the constant another one
                self._ahead.put(value, value.name, functools.partial(_as_it_is, Held(tensor)))


def _as_it_is(content: Content) -> Content:
    return content


def _folded(folds: batchnorm.Folds, layer: Node, norm: Node) -> Content:
    """The folded weight, computed in the thread that writes it."""
    made = folds.of(layer, norm) or layer
    weight = made.inputs[1]
    assert isinstance(weight, Constant)
    return contents.of(weight)

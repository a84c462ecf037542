"""Weights that a graph would only transpose are stored transposed.

Where nothing else reads such a weight: else it would be stored twice. And where it is in memory: one
that is streamed from a file goes through as it lies there, which is three times as fast. What is
stored is made piece by piece when it is written, under a name that says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

import torch

from ..tensors.values import Absent, Body, Constant, Node, Value
from ..weights import contents
from ..weights.contents import Cast, Content, Held, Permuted


def fold(nodes: list[Node], uses: Counter[int], finals: Container[int]) -> list[Node]:
    """The nodes, without those that transpose a weight.

    `uses` counts who reads a value, by its id; `finals` are the ids of what the graph returns.
    """
    instead: dict[int, Value] = {}
    kept = []
    for node in nodes:
        for body in node.attributes.values():
            if isinstance(body, Body):
                body.nodes = fold(body.nodes, uses, set(map(id, body.outputs)))
        made = None
        if is_one(node) and uses[id(node.inputs[0])] == 1 and id(node.outputs[0]) not in finals:
            made = content(node)
        if made is None:
            kept.append(node)
        else:
            weight = node.inputs[0]
            assert isinstance(weight, Constant)
            instead[id(node.outputs[0])] = _stored(weight, made)
    if instead:
        _reread(kept, instead)
    return kept


def is_one(node: Node) -> bool:
    """Whether a node does nothing but transpose a weight."""
    return (
        node.op == "Transpose"
        and not node.domain
        and isinstance(node.inputs[0], Constant)
        and "perm" in node.attributes
    )


def content(node: Node) -> Content | None:
    """What such a node makes of its weight; None where that is not in memory."""
    weight = node.inputs[0]
    assert isinstance(weight, Constant)
    return _permuted(contents.of(weight), tuple(node.attributes["perm"]))


def name_of(weight: Constant) -> str:
    """What a weight is called that is stored transposed."""
    return weight.name and f"{weight.name}.transposed"


def _stored(weight: Constant, made: Content) -> Absent:
    empty = torch.empty(made.shape, dtype=made.dtype, device="meta")
    return Absent(empty, made, name=name_of(weight))


def _permuted(content: Content, order: tuple[int, ...]) -> Content | None:
    if isinstance(content, Cast):  # each piece is cast
        inner = _permuted(content.of, order)
        return None if inner is None else Cast(inner, content.dtype)
    if isinstance(content, Held) and content.tensor.layout is torch.strided:
        return Permuted(content, order)
    return None


def _reread(nodes: list[Node], instead: dict[int, Value]) -> None:
    for node in nodes:
        node.inputs = [instead.get(id(value), value) for value in node.inputs]
        for body in node.attributes.values():
            if isinstance(body, Body):
                _reread(body.nodes, instead)
                body.outputs = [instead.get(id(value), value) for value in body.outputs]

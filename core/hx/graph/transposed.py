"""Store a weight transposed if the graph would only transpose it.

This applies where nothing else reads the weight, which would then be stored twice, and where it is
in memory: a weight streamed from a file is copied as it is, which is three times as fast. The
transposed bytes are made piece by piece when they are written, under a name of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

import torch

from ..ir.node_reads import read_instead
from ..ir.value import Absent, Constant, Node, Value
from ..weights import contents
from ..weights.contents import Cast, Content, Held, Permuted


def fold(nodes: list[Node], uses: Counter[int], finals: Container[int]) -> list[Node]:
    """The nodes, without those that transpose a weight.

    `uses` counts the readers of a value, by its id; `finals` are the ids of the graph's outputs.
    """
    instead: dict[int, Value] = {}
    kept = []
    for node in nodes:
        for body in node.bodies:
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
        read_instead(kept, instead)
    return kept


def is_one(node: Node) -> bool:
    """Return True if a node only transposes a weight."""
    return (
        node.op == "Transpose"
        and not node.domain
        and isinstance(node.inputs[0], Constant)
        and "perm" in node.attributes
    )


def content(node: Node) -> Content | None:
    """The transposed content of such a node's weight; None where the weight is not in memory."""
    weight = node.inputs[0]
    assert isinstance(weight, Constant)
    return _permuted(contents.of(weight), tuple(node.attributes["perm"]))


def name_of(weight: Constant) -> str:
    """The name of a weight that is stored transposed."""
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

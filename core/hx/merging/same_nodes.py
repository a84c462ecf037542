"""Comparison of nodes that may read different values: operators, attributes and bodies."""

from __future__ import annotations

import torch

from ..ir.value import Body, Node
from ..tensor_bytes import same_bits

Bodies = list[tuple[Body, Body]]


def paired_bodies(one: Node, other: Node) -> Bodies | None:
    """Return the bodies of two nodes in pairs; None if the nodes differ in more than what they and
    their bodies read.
    """
    if (one.op, one.domain) != (other.op, other.domain):
        return None
    if len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
        return None
    if one.attributes.keys() != other.attributes.keys():
        return None
    pairs: Bodies = []
    for name, a in one.attributes.items():
        b = other.attributes[name]
        if isinstance(a, Body) and isinstance(b, Body):
            if _lengths(a) != _lengths(b):
                return None
            pairs.append((a, b))
        elif isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            if not same_bits(a, b):
                return None
        elif a is not b and repr(a) != repr(b):
            return None
    return pairs


def _lengths(body: Body) -> tuple[int, int, int]:
    return len(body.inputs), len(body.nodes), len(body.outputs)

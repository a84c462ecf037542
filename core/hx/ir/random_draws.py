"""ONNX operators that draw random numbers."""

from __future__ import annotations

from .node_reads import with_inner
from .value import Node

RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
     "Multinomial"}
)  # fmt: skip


def draws(node: Node) -> bool:
    """Return True if a node draws random numbers, or one in its bodies."""
    return any(each.op in RANDOM and not each.domain for each in with_inner([node]))

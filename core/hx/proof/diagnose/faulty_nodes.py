"""Nodes and constants of a rejected file that are wrong."""

from __future__ import annotations

from .first_difference import written
from .rejected import Rejected


def named_by_the_proof(rejected: Rejected) -> list[str]:
    """Return the node that onnx's checker or onnxruntime complains about."""
    name = rejected.proof.node
    nodes = [node for node in rejected.parts.nodes if name and node.name == name]
    return [written(rejected.subject, node) for node in nodes]


def wrong_constants(rejected: Rejected) -> list[str]:
    """List constants that have changed since they were recorded."""
    return list(rejected.subject.trace.effects.wrong_constants)[:5]


def first_off(rejected: Rejected) -> list[str]:
    """Return the first node whose result is not the model's, and constants baked in before it."""
    return rejected.difference.lines

"""Random values in a graph: they differ in every run, and cannot be compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from ...findings import CHECKED, Finding
from ...graph.file_nodes import all_nodes, bodies_of, following, follows
from ...ir.node_reads import with_inner
from ...ir.random_draws import RANDOM

if TYPE_CHECKING:
    from ...errors import Where
    from ...ir.value import Node


def findings(nodes: Iterable[Node]) -> list[Finding]:
    """Return a finding for each call of the model that draws."""
    told: dict[str, Where] = {}
    for node in with_inner(nodes):
        if node.op in RANDOM and not node.domain and node.origin is not None:
            told[f"{node.origin.target} at {node.origin.where}"] = node.origin.where
    return [
        Finding(CHECKED, f"{call} draws random numbers: each run of the graph draws its own", where)
        for call, where in told.items()
    ]


def drawing(graph: Any) -> list[str]:
    """Return the names of the nodes of a file that draw."""
    return [node.name for node in all_nodes(graph) if is_draw(node)]


def within(model: Any) -> bool:
    """Return True if a file draws in a loop, or on one side of a branch."""
    return any(drawing(body) for node in model.graph.node for body in bodies_of(node))


def drawn(model: Any) -> set[str]:
    """Return the names of a file's values that follow from random numbers."""
    return following(model, is_draw)


def given(model: Any, values: Collection[str]) -> set[str]:
    """Return those of `values` through which random numbers reach the rest of the file."""
    known: set[str] = set()
    found: set[str] = set()
    for node in model.graph.node:
        if follows(node, is_draw, known):
            found.update(name for name in node.output if name in values)
            known.update(name for name in node.output if name and name not in values)
    return found


def is_draw(node: Any) -> bool:
    """Return True if a node of a file draws random numbers itself."""
    return node.op_type in RANDOM and node.domain in ("", "ai.onnx")

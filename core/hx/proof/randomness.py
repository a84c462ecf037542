"""Random values in a graph: they differ in every run, and cannot be compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..findings import CHECKED, Finding
from ..graph.model_parts import all_nodes

if TYPE_CHECKING:
    from ..errors import Where
    from ..ir.value import Node

OPERATORS = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
     "Multinomial"}
)  # fmt: skip


def findings(nodes: Iterable[Node]) -> list[Finding]:
    """Return a finding for each call of the model that draws."""
    told: dict[str, Where] = {}
    for node in _with_those_within(nodes):
        if node.op in OPERATORS and not node.domain and node.origin is not None:
            told[f"{node.origin.target} at {node.origin.where}"] = node.origin.where
    return [
        Finding(CHECKED, f"{call} draws random numbers: each run of the graph draws its own", where)
        for call, where in told.items()
    ]


def _with_those_within(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes, and those of their bodies."""
    from ..ir.value import Body

    for node in nodes:
        yield node
        for body in node.attributes.values():
            if isinstance(body, Body):
                yield from _with_those_within(body.nodes)


def drawing(graph: Any) -> list[str]:
    """Return the names of the nodes of a file that draw."""
    return [node.name for node in all_nodes(graph) if _draws(node)]


def within(model: Any) -> bool:
    """Return True if a file draws in a loop, or on one side of a branch."""
    bodies = (a.g for node in model.graph.node for a in node.attribute if a.HasField("g"))
    return any(map(drawing, bodies))


def drawn(model: Any) -> set[str]:
    """Return the names of a file's values that follow from random numbers."""
    functions = {
        (f.domain, f.name) for f in model.functions if any(map(_draws, f.node))
    }  # one level: functions that call functions are not written here
    return _follow(model.graph, functions, set())


def given(model: Any, values: Collection[str]) -> set[str]:
    """Return those of `values` through which random numbers reach the rest of the file."""
    known: set[str] = set()
    found: set[str] = set()
    for node in model.graph.node:
        if _follow_node(node, set(), known):
            found.update(name for name in node.output if name in values)
            known.update(name for name in node.output if name and name not in values)
    return found


def _follow(graph: Any, functions: set, known: set[str]) -> set[str]:
    for node in graph.node:
        if _follow_node(node, functions, known):
            known.update(name for name in node.output if name)
    return known


def _follow_node(node: Any, functions: set, known: set[str]) -> bool:
    """Return True if a node's results follow from random numbers, when the `known` values do."""
    bodies = [a.g for a in node.attribute if a.HasField("g")]
    inside = set().union(*(_follow(body, functions, set(known)) for body in bodies))
    drawn = _draws(node) or (node.domain, node.op_type) in functions or bool(inside - known)
    return drawn or not known.isdisjoint(node.input)


def _draws(node: Any) -> bool:
    return node.op_type in OPERATORS and node.domain in ("", "ai.onnx")

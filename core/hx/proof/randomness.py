"""What in a graph is drawn at random: no two runs agree on it, and nothing can be compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tensors.values import Node

OPERATORS = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
     "Multinomial"}
)  # fmt: skip


def notes(nodes: Iterable[Node]) -> list[str]:
    """For people: which calls of the model drew."""
    told: dict[str, None] = {}
    for node in _with_those_within(nodes):
        if node.op in OPERATORS and not node.domain and node.origin is not None:
            told[f"{node.origin.target} at {node.origin.where}"] = None
    return [f"{call} draws random numbers: each run of the graph draws its own" for call in told]


def _with_those_within(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, and those of their bodies."""
    from ..tensors.values import Body

    for node in nodes:
        yield node
        for body in node.attributes.values():
            if isinstance(body, Body):
                yield from _with_those_within(body.nodes)


def drawing(graph: Any) -> list[str]:
    """The names of the nodes of a file that draw."""
    found = []
    for node in graph.node:
        found += [node.name] if _draws(node) else []
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += drawing(attribute.g)
    return found


def within(model: Any) -> bool:
    """Whether a file draws in a loop, or on one side of a branch."""
    bodies = (a.g for node in model.graph.node for a in node.attribute if a.HasField("g"))
    return any(map(drawing, bodies))


def drawn(model: Any) -> set[str]:
    """The names of a file's values that follow from random numbers."""
    functions = {
        (f.domain, f.name) for f in model.functions if any(map(_draws, f.node))
    }  # one level: functions of functions are not written by anybody here
    return _follow(model.graph, functions, set())


def given(model: Any, values: Collection[str]) -> set[str]:
    """Of some values of a file, those that its random numbers reach the rest by."""
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
    """Whether what a node gives follows from random numbers, if these values do."""
    bodies = [a.g for a in node.attribute if a.HasField("g")]
    inside = set().union(*(_follow(body, functions, set(known)) for body in bodies))
    drawn = _draws(node) or (node.domain, node.op_type) in functions or bool(inside - known)
    return drawn or not known.isdisjoint(node.input)


def _draws(node: Any) -> bool:
    return node.op_type in OPERATORS and node.domain in ("", "ai.onnx")

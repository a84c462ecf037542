"""Graph of joined recordings: an `If` for each question with two answers."""

from __future__ import annotations

from collections.abc import Iterable

from ...graph import blocks
from ...graph.builder import Builder
from ...graph.op import Op
from ...ir.value import Node, Origin
from ...recording.trace import Trace
from ..copied_trace import own_outputs
from .node_rows import Items, Row, Split


def write_graph(trace: Trace, row: Row, others: Iterable[Trace]) -> None:
    """Put the row that is joined from a recording and others into its graph."""
    graph, recorded = trace.graph, trace.nodes
    graph.nodes = _written(Builder.over(graph), row.items)
    if graph.round_marks is not None:
        graph.round_marks.rearranged(recorded, graph.nodes)
    for other in others:
        for domain, version in other.graph.dialect.domains.items():
            graph.dialect.domains.setdefault(domain, version)
    trace.outputs = [(name, value) for (name, _), value in zip(trace.outputs, row.outputs)]


def _written(builder: Builder, items: Items) -> list[Node]:
    nodes: list[Node] = []
    for item in items:
        if isinstance(item, Node):
            nodes.append(item)
            own_outputs([item])
        elif isinstance(item, Split) and item.joins:
            sides = {
                yes: blocks.block(
                    [], [join.of[yes] for join in item.joins], _written(builder, side)
                )
                for yes, side in item.sides.items()
            }
            where = item.question.where
            builder.nodes = nodes
            with blocks.rewriting(builder):
                builder.origin = Origin("if", "hx", where.scope, "", where.file, where.line)
                test = item.question.computed(Op(builder))
                blocks.write_if(builder, test, sides[True], sides[False])
            node = nodes[-1]
            node.outputs = [join.value for join in item.joins]
            for value in node.outputs:
                value.node = node
    return nodes

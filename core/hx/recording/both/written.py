"""The graph of recordings that were joined: an If for each question with two answers."""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model
from typing import Any

from ...graph.op import Op
from ...tensors.values import Body, Node, Origin
from ..capture import Capture
from .rows import Items, Row, Split


def write_graph(captured: Capture, row: Row) -> None:
    builder = captured.recording.builder
    builder.nodes = _written(builder, row.items)
    captured.outputs = [(name, value) for (name, _), value in zip(captured.outputs, row.outputs)]


def _written(builder: Any, items: Items) -> list[Node]:
    nodes: list[Node] = []
    for item in items:
        if isinstance(item, Node):
            nodes.append(item)
            for value in item.outputs:
                value.node = item  # which may have been laid out as a copy
        elif isinstance(item, Split) and item.joins:
            sides = {
                yes: Body([], [join.of[yes] for join in item.joins], _written(builder, side))
                for yes, side in item.sides.items()
            }
            where = item.question.where
            builder.nodes, outer = nodes, builder.origin
            builder.origin = Origin("if", "hx", where.scope, "", where.file, where.line)
            kept = builder.sizes.scope(empty=True)
            try:
                test = item.question.computed(Op(builder))
                bodies = {"then_branch": sides[True], "else_branch": sides[False]}
                builder.emit("If", [test], bodies, len(item.joins))
            finally:
                builder.origin = outer
                builder.sizes.restore(kept)
            node = nodes[-1]
            node.outputs = [join.value for join in item.joins]
            for value in node.outputs:
                value.node = node
    return nodes

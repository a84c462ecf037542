"""Copies of traces: a merge changes its own copy, and leaves the recordings as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..graph.blocks import block
from ..ir.escapes import Escape
from ..ir.value import Body, Node
from ..recording.trace import Trace


def copied(trace: Trace) -> Trace:
    """Return a copy of a trace. It shares the values, of which a merge may change only the sizes."""
    graph, effects, merged = trace.graph, trace.effects, trace.merged
    nodes = [*map(copied_node, graph.nodes)]
    own_outputs(nodes)
    marks = None if graph.round_marks is None else graph.round_marks.copy()
    dialect = replace(graph.dialect, domains=dict(graph.dialect.domains))
    return replace(
        trace,
        graph=replace(graph, nodes=nodes, dialect=dialect, round_marks=marks),
        outputs=list(trace.outputs),
        escapes=copied_escapes(trace),
        findings=list(trace.findings),
        effects=replace(
            effects,
            compiled=list(effects.compiled),
            script_attributes=set(effects.script_attributes),
        ),
        merged=replace(
            merged, loop_sizes=set(merged.loop_sizes), loop_lengths=dict(merged.loop_lengths)
        ),
    )


def copied_escapes(trace: Trace) -> dict[tuple, Escape]:
    """Return copies of the escapes of a trace, to which notes can be added."""
    return {key: replace(each, asked=dict(each.asked)) for key, each in trace.escapes.items()}


def copied_node(node: Node) -> Node:
    """Copy a node with its bodies, so that what they read can be changed."""
    attributes = {
        name: block(held.inputs, held.outputs, [*map(copied_node, held.nodes)])
        if isinstance(held, Body)
        else held
        for name, held in node.attributes.items()
    }
    return Node(node.op, node.domain, list(node.inputs), node.outputs, attributes, node.origin)


def own_outputs(nodes: Iterable[Node]) -> None:
    """Make these nodes the ones that write their outputs."""
    for node in nodes:
        for value in node.outputs:
            value.node = node
        for body in node.bodies:
            own_outputs(body.nodes)

"""Pieces of an axis, each cut out by itself where the model reads only some of them.

    list(x)[:3]        x.unbind(0)[-1]        itertools.islice(x, 3)

A Split has as many outputs at every size. So it is right for one size alone, but what is read of it
may be right for others, too.
"""

from __future__ import annotations

import torch

from ..graph.builder import Builder
from ..ir import shapes
from ..ir.node_reads import reads
from ..ir.sizes import dims
from ..ir.value import Node
from ..recording.trace import Trace
from .copied_trace import copied, own_outputs
from .loops.write_loops import needed_of


def cut_apart(trace: Trace) -> Trace:
    """Return a trace with a Slice for each piece that is read, where others are not."""
    results = [value for _, value in trace.outputs]
    needed = needed_of(trace.nodes, results)
    read = {*map(id, results), *(id(value) for node in needed for _, value in reads(node))}
    partly = {node for node in needed if _piece(node) and not _all_read(node, read)}
    if not partly:
        return trace
    made = copied(trace)
    builder = Builder.over(made.graph)
    nodes: list[Node] = []
    for node, own in zip(trace.nodes, made.graph.nodes):
        nodes += _slices(builder, own, read) if node in partly else [own]
    own_outputs(nodes)
    made.graph.nodes = nodes
    return made


def _piece(node: Node) -> int:
    """Return the size of each piece, if a node cuts an axis of dynamic size into equal ones; or 0."""
    whole = node.inputs[0] if node.op == "Split" and not node.domain else None
    if whole is None or not dims.is_dynamic(whole.size(node.attributes.get("axis", 0))):
        return 0
    try:
        sizes = shapes.elements(node.inputs[1])
    except shapes.Unknown:
        return 0
    return sizes[0] if type(sizes[0]) is int and all(n == sizes[0] for n in sizes) else 0


def _all_read(node: Node, read: set[int]) -> bool:
    return all(id(value) in read for value in node.outputs)


def _slices(builder: Builder, node: Node, read: set[int]) -> list[Node]:
    each, axis = _piece(node), node.attributes.get("axis", 0)
    found = []
    for at, value in enumerate(node.outputs):
        if id(value) in read:
            bounds = [[at * each], [(at + 1) * each], [axis]]
            numbers = [builder.number(n, torch.int64) for n in bounds]
            found.append(Node("Slice", "", [node.inputs[0], *numbers], [value], {}, node.origin))
    return found

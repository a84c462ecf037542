"""Nodes of a file, with those in the bodies of others. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx


def bodies_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the sides of an If, or the round of a Loop or Scan."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def metadata_of(node: onnx.NodeProto) -> dict[str, str]:
    """Return the metadata of a node, as hx.target and hx.source."""
    return {entry.key: entry.value for entry in node.metadata_props}


def operator_of(node: Any) -> str:
    """Return a node's operator, with its domain if that is not ONNX's own: `hx::Solve`."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def all_nodes(graph: Any) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph or a function, each followed by those of its bodies."""
    for node in graph.node:
        yield node
        for body in bodies_of(node):
            yield from all_nodes(body)


def following(
    model: onnx.ModelProto, starts: Callable[[Any], bool], names: Iterable[str] = ()
) -> set[str]:
    """Return `names`, and the values of a file that follow from them, or from nodes that start."""
    functions = {
        (f.domain, f.name) for f in model.functions if any(map(starts, f.node))
    }  # one level: functions that call functions are not written here
    return _with_following(
        model.graph,
        lambda node: starts(node) or (node.domain, node.op_type) in functions,
        set(names),
    )


def follows(node: onnx.NodeProto, starts: Callable[[Any], bool], names: set[str]) -> bool:
    """Return True if the results of a node follow from the named values, or from a node that
    starts.
    """
    if starts(node) or not names.isdisjoint(node.input):
        return True
    return any(_with_following(body, starts, set(names)) - names for body in bodies_of(node))


def _with_following(graph: Any, starts: Callable[[Any], bool], names: set[str]) -> set[str]:
    for node in graph.node:
        if follows(node, starts, names):
            names.update(filter(None, node.output))
    return names

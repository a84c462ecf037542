"""Nodes of a graph and of its bodies by address, and values of the graph with their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper


def nodes(graph: onnx.GraphProto, within: str = "") -> Iterator[tuple[str, onnx.NodeProto]]:
    """Yield each node with its address: "3", or "3.body.5" in a body."""
    for i, node in enumerate(graph.node):
        address = f"{within}{i}"
        yield address, node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g, f"{address}.{attribute.name}.")


def graph_of(model: onnx.ModelProto, address: str) -> tuple[onnx.GraphProto, int]:
    """Return the graph or body that has a node, and the place of the node in it."""
    graph, steps = model.graph, address.split(".")
    for i, name in zip(steps[0::2], steps[1::2]):
        graph = next(a.g for a in graph.node[int(i)].attribute if a.name == name)
    return graph, int(steps[-1])


def node_at(model: onnx.ModelProto, address: str) -> onnx.NodeProto:
    graph, place = graph_of(model, address)
    return graph.node[place]


def constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Return the small constants of the graph by name: initializers and Constant nodes."""
    found = {
        each.name: numpy_helper.to_array(each)
        for each in model.graph.initializer
        if np.prod(each.dims, dtype=int) <= 1 << 16
    }
    for _, node in nodes(model.graph):
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return found


def set_constant(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    """Replace a constant, wherever it is."""
    for each in model.graph.initializer:
        if each.name == name:
            each.CopyFrom(numpy_helper.from_array(array, name))
            return
    for _, node in nodes(model.graph):
        if node.op_type == "Constant" and node.output[0] == name:
            node.attribute[0].t.CopyFrom(numpy_helper.from_array(array, node.attribute[0].t.name))
            return
    raise KeyError(name)


def attribute(node: onnx.NodeProto, name: str, default: object = None) -> object:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def set_attribute(node: onnx.NodeProto, name: str, value: object) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


@dataclass
class Seen:
    """Values of the graph, as two runs at different sizes showed them."""

    dtypes: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    dynamic: dict[str, list[int]] = field(default_factory=dict)  # axes that changed
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[str, np.ndarray] = field(default_factory=dict)  # small ones of whole numbers

    @classmethod
    def of(cls, runs: Sequence[Mapping[str, np.ndarray]]) -> Seen:
        seen = cls()
        for name, value in runs[0].items():
            seen.dtypes[name], seen.ranks[name] = str(value.dtype), value.ndim
            seen.shapes[name] = value.shape
            others = [run[name] for run in runs[1:] if run[name].ndim == value.ndim]
            seen.dynamic[name] = [
                axis
                for axis in range(value.ndim)
                if any(other.shape[axis] != value.shape[axis] for other in others)
            ]
            if value.dtype == np.int64 and value.size <= 8:
                seen.numbers[name] = value
        return seen


def insert_behind(
    model: onnx.ModelProto, value: str, make: Sequence[onnx.NodeProto], constant: Sequence = ()
) -> None:
    """Put nodes between a value of the graph and all that read it.

    The nodes read `true(value)` and give `value`.
    """
    for i, node in enumerate(model.graph.node):
        if value in node.output:
            node.output[list(node.output).index(value)] = true(value)
            later = list(model.graph.node[i + 1 :])
            del model.graph.node[i + 1 :]
            model.graph.node.extend([*make, *later])
            break
    else:
        raise KeyError(value)
    model.graph.initializer.extend(constant)


def true(value: str) -> str:
    return f"{value}/planted_true"

"""Nodes and values as protobuf has them, everything named: what a file says beside its weights.

Made of the recording's own nodes in one step, a few microseconds each. Imports torch and onnx:
import it late.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import onnx
import torch

from ..saving import wire
from ..sizes import dims
from ..sizes.polynomials import Poly
from ..tensors import dtypes, memory
from ..tensors.values import Body, Constant, Node, Value
from ..weights import contents
from .naming import Names, namespace, node_name

# The IR version that came with each opset: what an old runtime can read.
_IR = dict(zip(range(13, 27), (7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13)))
_KIND = onnx.AttributeProto


class Assembly:
    """`called` says what each value is called, by its id."""

    def __init__(
        self, inputs: Sequence[Value], opset: int, domains: Mapping[str, int], classes: dict
    ) -> None:
        self._inputs = inputs
        self._imports = {"": opset, **dict(sorted(domains.items()))}
        self._classes = classes
        self._names = Names()
        self.called: dict[int, str] = {}
        self._weights: list[wire.Weight] = []
        self._given: dict[int, str] = {}  # the names that the graph's outputs must have, by value
        self._types: dict[Any, onnx.TypeProto] = {}
        self._sizes: dict[Poly, str | None] = {}  # as they are spelled
        self._namespaces: dict[str, str] = {}  # by scope
        self._origins: dict[int, list[onnx.StringStringEntryProto]] = {}  # told, by id

    def parts(
        self, nodes: Sequence[Node], outputs: Sequence[tuple[str, Value]], name: str
    ) -> wire.Parts:
        graph = onnx.GraphProto(name=name)
        for value in self._inputs:
            self._edge(graph.input.add(), value, self._name(value, value.name))
        inputs = set(map(id, self._inputs))
        claimed = [(self._names.claim(wanted), value) for wanted, value in outputs]
        copies = []
        for its_name, value in claimed:
            # An output that is an input, a constant, or another output needs a node of its own.
            if id(value) in inputs or isinstance(value, Constant) or id(value) in self._given:
                copies.append((its_name, value))
            else:
                self._given[id(value)] = its_name
        for node in nodes:
            self._node(graph, node, self._given)
        for its_name, value in copies:
            self._copy(graph, value, its_name, f"{its_name}/Identity")
        for its_name, value in claimed:
            self._edge(graph.output.add(), value, its_name)
        model = onnx.ModelProto(producer_name="hx")
        for domain, version in self._imports.items():
            model.opset_import.add(domain=domain, version=version)
        return wire.Parts(_IR[self._imports[""]], model, graph, self._weights)

    def _name(self, value: Value, wanted: str) -> str:
        name = self._given.get(id(value)) or self._names.claim(wanted)
        self.called[id(value)] = name
        return name

    def _read(self, value: Value | None) -> str:
        """What a node calls its input; a constant that is read for the first time is stored."""
        if value is None:
            return ""
        name = self.called.get(id(value))
        if name is None:
            if not isinstance(value, Constant):
                raise AssertionError(f"{value!r} is read before it is written")
            name = self._name(value, value.name or "const")
            content = contents.of(value)
            if isinstance(content, contents.Held):
                memory.refuse_what_has_none(content.tensor, name)
            early = wire.is_early(value.name, value.tensor)
            self._weights.append(wire.weight(name, content, early))
        return name

    def _node(self, graph: onnx.GraphProto, node: Node, finals: Container[int]) -> None:
        """Adds a node; `finals` are the ids of what the graph returns, which says itself what it is."""
        inputs = [self._read(value) for value in node.inputs]
        name = self._names.claim(node_name(node.origin.scope if node.origin else "", node.op))
        one = len(node.outputs) == 1
        outputs = [
            self._name(value, f"{name}.out" if one else f"{name}.{i}")
            for i, value in enumerate(node.outputs)
        ]
        made = graph.node.add(
            op_type=node.op, domain=node.domain or None, name=name, input=inputs, output=outputs
        )
        for key, value in node.attributes.items():
            self._attribute(made.attribute.add(name=key), value)
        made.metadata_props.extend(self._about(node))
        for value, its_name in zip(node.outputs, outputs):
            if id(value) not in finals and value.dtype is not None:
                self._edge(graph.value_info.add(), value, its_name)

    def _copy(self, graph: onnx.GraphProto, value: Value, name: str, node_name: str) -> None:
        source = self._read(value)
        node_name = self._names.claim(node_name)
        graph.node.add(op_type="Identity", input=[source], output=[name], name=node_name)

    def _edge(self, info: onnx.ValueInfoProto, value: Value, name: str) -> None:
        """Says the name, type and sizes of a value that is no initializer."""
        info.name = name
        if value.dtype is None:
            return
        sizes = None if value.shape is None else tuple(map(self._size, value.shape))
        known = self._types.get((value.dtype, sizes))
        if known is None:
            known = self._types[value.dtype, sizes] = _type(value.dtype, sizes)
        info.type.CopyFrom(known)

    def _size(self, n: int) -> int | str | None:
        if type(n) is not dims.Dim:
            return int(n)
        if n.poly not in self._sizes:
            # A size that only the engine can follow stays without a name.
            self._sizes[n.poly] = str(n.poly) if n.poly.named() else None
        return self._sizes[n.poly]

    def _about(self, node: Node) -> list[onnx.StringStringEntryProto]:
        """Where a node comes from."""
        origin = node.origin
        if origin is None:
            return _entries(node.notes)
        known = self._origins.get(id(origin))
        if known is None or node.notes:
            about = {
                "namespace": f"{self._namespace(origin.scope)}: {origin.target}",
                "hx.module": origin.scope,
                "hx.target": origin.target,
                "hx.pack": origin.pack,
            }
            if origin.code is not None:
                about["hx.source"] = f"{origin.code.co_filename}:{origin.line}"
            if node.notes:
                return _entries({**about, **node.notes})
            known = self._origins[id(origin)] = _entries(about)
        return known

    def _namespace(self, scope: str) -> str:
        found = self._namespaces.get(scope)
        if found is None:
            path = namespace(scope, self._classes)
            found = self._namespaces[scope] = f"{path}/" if path else ""
        return found

    def _attribute(self, made: onnx.AttributeProto, v: Any) -> None:
        if isinstance(v, Body):
            made.type = _KIND.GRAPH
            self._body(made.g, v)
        elif isinstance(v, torch.Tensor):
            made.type = _KIND.TENSOR
            weight = wire.weight(made.name, contents.Held(v))
            made.t.CopyFrom(weight.proto)
            made.t.raw_data = b"".join(wire.chunks(weight))
        elif isinstance(v, int):
            made.type, made.i = _KIND.INT, v
        elif isinstance(v, float):
            made.type, made.f = _KIND.FLOAT, v
        elif isinstance(v, str):
            made.type, made.s = _KIND.STRING, v.encode()
        elif isinstance(v, (list, tuple)) and all(isinstance(each, int) for each in v):
            made.type = _KIND.INTS
            made.ints.extend(v)
        elif isinstance(v, (list, tuple)) and all(isinstance(each, (int, float)) for each in v):
            made.type = _KIND.FLOATS
            made.floats.extend(v)
        else:
            made.CopyFrom(onnx.helper.make_attribute(made.name, v))

    def _body(self, graph: onnx.GraphProto, body: Body) -> None:
        for value in body.inputs:
            self._edge(graph.input.add(), value, self._name(value, "body.in"))
        # Constants live in the outer graph, where a body may read them.
        finals = set(map(id, body.outputs))
        for node in body.nodes:
            self._node(graph, node, finals)
        inside = {id(output) for node in body.nodes for output in node.outputs}
        for value in body.outputs:
            if id(value) in inside:
                inside.discard(id(value))
                name = self.called[id(value)]
            else:
                name = self._names.claim("body.out")
                self._copy(graph, value, name, "body/Identity")
            self._edge(graph.output.add(), value, name)
        graph.name = self._names.claim("body")


def _entries(about: Mapping[str, str]) -> list[onnx.StringStringEntryProto]:
    return [onnx.StringStringEntryProto(key=k, value=v) for k, v in sorted(about.items())]


def _type(dtype: torch.dtype, sizes: Sequence[int | str | None] | None) -> onnx.TypeProto:
    made = onnx.TypeProto()
    made.tensor_type.elem_type = dtypes.number(dtype)
    if sizes is not None:
        shape = made.tensor_type.shape
        shape.SetInParent()  # that of a number has no sizes
        for n in sizes:
            if isinstance(n, str):
                shape.dim.add(dim_param=n)
            elif n is None:
                shape.dim.add()
            else:
                shape.dim.add(dim_value=n)
    return made

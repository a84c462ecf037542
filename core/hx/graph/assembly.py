"""Names of all nodes and values, and the protobuf messages of a graph without its weights.

Imports torch and onnx: import it late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Any

import onnx
import torch

from .. import dtypes, tensor_bytes
from ..ir.sizes import dims
from ..ir.sizes.size_polynomials import ELLIPSIS, Poly
from ..ir.value import Body, Constant, Node, Value
from ..weights import contents
from . import model_parts
from .naming import Names, namespace, node_name

# The IR version that came with each opset: what an old runtime can read.
_IR_VERSIONS = dict(zip(range(13, 27), (7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13)))
_KIND = onnx.AttributeProto
Sizes = tuple[int | str | None, ...]


class Assembly:
    """One graph in the making; `names` maps the id of each value to its name in the file."""

    def __init__(
        self, inputs: Sequence[Value], opset: int, domains: Mapping[str, int], classes: dict
    ) -> None:
        self._inputs = inputs
        self._opsets = {"": opset, **dict(sorted(domains.items()))}
        self._free_names = Names()
        self.names: dict[int, str] = {}
        self._output_names: dict[int, str] = {}  # the user's name of a value, by its id
        self._weights: list[model_parts.Weight] = []
        self._nodes_by_pack: Counter[str] = Counter()
        self._types: dict[tuple[torch.dtype, Sizes | None], onnx.TypeProto] = {}
        self._spelled_sizes: dict[Poly, str | None] = {}
        self._metadata = Metadata(classes)

    def parts(
        self, nodes: Sequence[Node], outputs: Sequence[tuple[str, Value]], name: str
    ) -> model_parts.Parts:
        graph = onnx.GraphProto(name=name)
        for value in self._inputs:
            self._describe(graph.input, value, self._name(value, value.name or "in"))
        inputs = set(map(id, self._inputs))
        claimed = [(self._free_names.claim(wanted), value) for wanted, value in outputs]
        copies = []
        for its_name, value in claimed:
            # An output that is an input, a constant, or another output needs a node of its own.
            repeated = id(value) in self._output_names
            if id(value) in inputs or isinstance(value, Constant) or repeated:
                copies.append((its_name, value))
            else:
                self._output_names[id(value)] = its_name
        for node in nodes:
            self._node(graph, node, self._output_names)
        for its_name, value in copies:
            self._copy(graph, value, its_name, f"{its_name}/Identity")
        for its_name, value in claimed:
            self._describe(graph.output, value, its_name)
        model = onnx.ModelProto(producer_name="hx")
        for domain, version in self._opsets.items():
            model.opset_import.add(domain=domain, version=version)
        return model_parts.Parts(
            _IR_VERSIONS[self._opsets[""]],
            model,
            graph.SerializeToString(deterministic=True),
            self._weights,
            self._nodes_by_pack,
        )

    def _name(self, value: Value, wanted: str) -> str:
        name = self._output_names.get(id(value)) or self._free_names.claim(wanted)
        self.names[id(value)] = name
        return name

    def _read(self, value: Value | None) -> str:
        """The name of a node's input; a constant that is read for the first time is stored."""
        if value is None:
            return ""
        name = self.names.get(id(value))
        if name is None:
            if not isinstance(value, Constant):
                raise AssertionError(f"{value!r} is read before it is written")
            name = self._name(value, value.name or "const")
            content = contents.of(value)
            if isinstance(content, contents.Held):
                tensor_bytes.refuse_what_has_none(content.tensor, name)
            early = model_parts.is_early(value.name, value.tensor)
            self._weights.append(model_parts.weight(name, content, early))
        return name

    def _node(self, graph: onnx.GraphProto, node: Node, outputs: Container[int]) -> None:
        """Add a node to a graph; `outputs` are the ids of what that graph returns."""
        self._nodes_by_pack[node.origin.pack if node.origin else ""] += 1
        inputs = [self._read(value) for value in node.inputs]
        scope = node.origin.scope if node.origin else ""
        name = self._free_names.claim(node_name(scope, node.op))
        made = graph.node.add(input=inputs, name=name, op_type=node.op)
        if node.domain:
            made.domain = node.domain
        one = len(node.outputs) == 1
        for i, value in enumerate(node.outputs):
            its_name = self._name(value, f"{name}.out" if one else f"{name}.{i}")
            made.output.append(its_name)
            if id(value) not in outputs and value.dtype is not None:
                self._describe(graph.value_info, value, its_name)
        for key, attribute in node.attributes.items():
            self._attribute(made.attribute.add(name=key), attribute)
        for key, text in self._metadata.of(node):
            made.metadata_props.add(key=key, value=text)

    def _copy(self, graph: onnx.GraphProto, value: Value, name: str, node_name: str) -> None:
        source = self._read(value)
        self._nodes_by_pack[""] += 1
        node_name = self._free_names.claim(node_name)
        graph.node.add(input=[source], output=[name], name=node_name, op_type="Identity")

    def _describe(self, described: Any, value: Value, name: str) -> None:
        """Add the name, type and sizes of a value that is no initializer."""
        made = described.add(name=name)
        if value.dtype is not None:
            sizes = None if value.shape is None else tuple(map(self._size, value.shape))
            known = self._types.get((value.dtype, sizes))
            if known is None:
                known = self._types[value.dtype, sizes] = _type(value.dtype, sizes)
            made.type.CopyFrom(known)

    def _size(self, n: int) -> int | str | None:
        if type(n) is not dims.Dim:
            return int(n)
        if n.poly not in self._spelled_sizes:
            # A size that only the engine can follow stays without a name.
            name = str(n.poly) if n.poly.named() else ELLIPSIS
            self._spelled_sizes[n.poly] = None if ELLIPSIS in name else name
        return self._spelled_sizes[n.poly]

    def _attribute(self, made: onnx.AttributeProto, value: Any) -> None:
        if isinstance(value, Body):
            made.type = _KIND.GRAPH
            self._body(made.g, value)
        elif isinstance(value, torch.Tensor):
            made.type = _KIND.TENSOR
            weight = model_parts.weight(made.name, contents.Held(value))
            made.t.CopyFrom(weight.proto)
            made.t.raw_data = b"".join(weight.chunks())
        elif isinstance(value, int):
            made.type, made.i = _KIND.INT, value
        elif isinstance(value, float):
            made.type, made.f = _KIND.FLOAT, value
        elif isinstance(value, str):
            made.type, made.s = _KIND.STRING, value.encode()
        elif isinstance(value, (list, tuple)) and all(isinstance(n, int) for n in value):
            made.type = _KIND.INTS
            made.ints.extend(value)
        elif isinstance(value, (list, tuple)) and all(isinstance(n, (int, float)) for n in value):
            made.type = _KIND.FLOATS
            made.floats.extend(value)
        else:
            made.CopyFrom(onnx.helper.make_attribute(made.name, value))

    def _body(self, graph: onnx.GraphProto, body: Body) -> None:
        """Fill the graph of a body; its constants are stored in the outer graph."""
        for value in body.inputs:
            self._describe(graph.input, value, self._name(value, "body.in"))
        outputs = set(map(id, body.outputs))
        for node in body.nodes:
            self._node(graph, node, outputs)
        inside = {id(output) for node in body.nodes for output in node.outputs}
        for value in body.outputs:
            if id(value) in inside:
                inside.discard(id(value))
                name = self.names[id(value)]
            else:
                name = self._free_names.claim("body.out")
                self._copy(graph, value, name, "body/Identity")
            self._describe(graph.output, value, name)
        graph.name = self._free_names.claim("body")


class Metadata:
    """The entries of a node that say which call of the model it came from."""

    def __init__(self, classes: dict[str, str]) -> None:
        self._classes = classes  # of the modules, by path
        self._namespaces: dict[str, str] = {}  # by path of a module

    def of(self, node: Node) -> list[tuple[str, str]]:
        entries = dict(node.notes)
        origin = node.origin
        if origin is not None:
            entries["hx.module"] = origin.scope
            entries["hx.pack"] = origin.pack
            if origin.file:
                entries["hx.source"] = f"{origin.file}:{origin.line}"
            entries["hx.target"] = origin.target
            entries["namespace"] = f"{self._namespace(origin.scope)}: {origin.target}"
        return sorted(entries.items())

    def _namespace(self, scope: str) -> str:
        found = self._namespaces.get(scope)
        if found is None:
            path = namespace(scope, self._classes)
            found = self._namespaces[scope] = f"{path}/" if path else ""
        return found


def _type(dtype: torch.dtype, sizes: Sizes | None) -> onnx.TypeProto:
    made = onnx.TypeProto()
    made.tensor_type.elem_type = dtypes.number(dtype)
    if sizes is not None:
        shape = made.tensor_type.shape
        shape.SetInParent()  # a scalar has a shape, of no sizes
        for n in sizes:
            if isinstance(n, str):
                shape.dim.add(dim_param=n)
            elif n is None:
                shape.dim.add()
            else:
                shape.dim.add(dim_value=n)
    return made

"""Nodes and values as protobuf has them, everything named: what a file says beside its weights.

Made of the recording's own nodes in one step, as bytes: fields in the order of their numbers, as
protobuf writes them itself, in a fifth of the time. Imports torch and onnx: import it late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import onnx
import torch

from ..saving import wire
from ..saving.wire import field
from ..sizes import dims
from ..sizes.polynomials import ELLIPSIS, Poly
from ..tensors import dtypes, memory
from ..tensors.values import Body, Constant, Node, Value
from ..weights import contents
from .naming import Names, namespace, node_name

# The IR version that came with each opset: what an old runtime can read.
_IR = dict(zip(range(13, 27), (7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13)))
_KIND = onnx.AttributeProto

# Tags of fields, (number << 3) | 2: those of GraphProto,
_NODE, _GRAPH_NAME, _INPUT, _OUTPUT, _VALUE = b"\x0a", b"\x12", b"\x5a", b"\x62", b"\x6a"
# of NodeProto (`_ABOUT` are its metadata_props),
_READS, _GIVES, _NAME, _OP, _ATTRIBUTE, _DOMAIN, _ABOUT = (
    b"\x0a", b"\x12", b"\x1a", b"\x22", b"\x2a", b"\x3a", b"\x4a"
)  # fmt: skip
# of what has a name first, or a key, and of what comes behind it.
_FIRST, _SECOND = b"\x0a", b"\x12"
_BODY = b"\x32"  # AttributeProto.g
_IS_BODY = b"\xa0\x01" + bytes((_KIND.GRAPH,))  # AttributeProto.type


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
        self._by_pack: Counter[str] = Counter()
        self._given: dict[int, str] = {}  # the names that the graph's outputs must have, by value
        self._types: dict[Any, bytes] = {}
        self._sizes: dict[Poly, str | None] = {}  # as they are spelled
        self._namespaces: dict[str, str] = {}  # by scope
        self._origins: dict[int, bytes] = {}  # told, by id
        self._attributes_said: dict[int, tuple[dict, bytes]] = {}  # by id
        self._said: dict[tuple[str, str], bytes] = {}  # what is told of them, piece by piece

    def parts(
        self, nodes: Sequence[Node], outputs: Sequence[tuple[str, Value]], name: str
    ) -> wire.Parts:
        edges = [self._edge(_INPUT, v, self._name(v, v.name or "in")) for v in self._inputs]
        inputs = set(map(id, self._inputs))
        claimed = [(self._names.claim(wanted), value) for wanted, value in outputs]
        copies = []
        for its_name, value in claimed:
            # An output that is an input, a constant, or another output needs a node of its own.
            if id(value) in inputs or isinstance(value, Constant) or id(value) in self._given:
                copies.append((its_name, value))
            else:
                self._given[id(value)] = its_name
        written: list[bytes] = []
        inner: list[bytes] = []  # what is said of the values between the nodes
        for node in nodes:
            self._node(written, inner, node, self._given)
        for its_name, value in copies:
            self._copy(written, value, its_name, f"{its_name}/Identity")
        edges += [self._edge(_OUTPUT, value, its_name) for its_name, value in claimed]
        model = onnx.ModelProto(producer_name="hx")
        for domain, version in self._imports.items():
            model.opset_import.add(domain=domain, version=version)
        graph = _graph(written, name, edges, inner)
        return wire.Parts(_IR[self._imports[""]], model, graph, self._weights, self._by_pack)

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

    def _node(
        self, written: list[bytes], inner: list[bytes], node: Node, finals: Container[int]
    ) -> None:
        """Writes a node; `finals` are the ids of what the graph returns, which says itself what it is."""
        self._by_pack[node.origin.pack if node.origin else ""] += 1
        parts = [field(_READS, self._read(value).encode()) for value in node.inputs]
        name = self._names.claim(node_name(node.origin.scope if node.origin else "", node.op))
        one = len(node.outputs) == 1
        for i, value in enumerate(node.outputs):
            its_name = self._name(value, f"{name}.out" if one else f"{name}.{i}")
            parts.append(field(_GIVES, its_name.encode()))
            if id(value) not in finals and value.dtype is not None:
                inner.append(self._edge(_VALUE, value, its_name))
        parts += field(_NAME, name.encode()), field(_OP, node.op.encode())
        if node.attributes:
            parts.append(self._attributes(node.attributes))
        if node.domain:
            parts.append(field(_DOMAIN, node.domain.encode()))
        parts.append(self._about(node))
        written.append(field(_NODE, b"".join(parts)))

    def _copy(self, written: list[bytes], value: Value, name: str, node_name: str) -> None:
        reads = field(_READS, self._read(value).encode()) + field(_GIVES, name.encode())
        self._by_pack[""] += 1
        node_name = self._names.claim(node_name)
        written.append(
            field(_NODE, reads + field(_NAME, node_name.encode()) + field(_OP, b"Identity"))
        )

    def _edge(self, tag: bytes, value: Value, name: str) -> bytes:
        """Says the name, type and sizes of a value that is no initializer."""
        said = field(_FIRST, name.encode())
        if value.dtype is not None:
            sizes = None if value.shape is None else tuple(map(self._size, value.shape))
            known = self._types.get((value.dtype, sizes))
            if known is None:
                known = field(_SECOND, _type(value.dtype, sizes))
                self._types[value.dtype, sizes] = known
            said += known
        return field(tag, said)

    def _size(self, n: int) -> int | str | None:
        if type(n) is not dims.Dim:
            return int(n)
        if n.poly not in self._sizes:
            # A size that only the engine can follow stays without a name.
            name = str(n.poly) if n.poly.named() else ELLIPSIS
            self._sizes[n.poly] = None if ELLIPSIS in name else name
        return self._sizes[n.poly]

    def _about(self, node: Node) -> bytes:
        """Where a node comes from."""
        origin = node.origin
        if origin is None:
            return _entries(node.notes)
        known = self._origins.get(id(origin))
        if known is None or node.notes:
            about = {"hx.module": origin.scope, "hx.pack": origin.pack}
            if origin.file:
                about["hx.source"] = f"{origin.file}:{origin.line}"
            about["hx.target"] = origin.target
            about["namespace"] = f"{self._namespace(origin.scope)}: {origin.target}"
            if node.notes:
                return _entries({**about, **node.notes})
            known = self._origins[id(origin)] = b"".join(map(self._entry, about.items()))
        return known

    def _entry(self, said: tuple[str, str]) -> bytes:
        """A key and its text: most are said of many nodes."""
        found = self._said.get(said)
        if found is None:
            found = self._said[said] = _entry(*said)
        return found

    def _namespace(self, scope: str) -> str:
        found = self._namespaces.get(scope)
        if found is None:
            path = namespace(scope, self._classes)
            found = self._namespaces[scope] = f"{path}/" if path else ""
        return found

    def _attributes(self, attributes: dict[str, Any]) -> bytes:
        """Those of a node. Nodes that are alike share them; a body is written once."""
        known = self._attributes_said.get(id(attributes))
        if known is None:
            said = b"".join(
                field(_ATTRIBUTE, self._attribute(*each)) for each in attributes.items()
            )
            known = self._attributes_said[id(attributes)] = attributes, said
        return known[1]

    def _attribute(self, key: str, v: Any) -> bytes:
        if isinstance(v, Body):
            return field(_FIRST, key.encode()) + field(_BODY, self._body(v)) + _IS_BODY
        made = _KIND(name=key)
        if isinstance(v, torch.Tensor):
            made.type = _KIND.TENSOR
            weight = wire.weight(key, contents.Held(v))
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
            made = onnx.helper.make_attribute(key, v)
        return made.SerializeToString(deterministic=True)

    def _body(self, body: Body) -> bytes:
        edges = [self._edge(_INPUT, v, self._name(v, "body.in")) for v in body.inputs]
        written: list[bytes] = []
        inner: list[bytes] = []
        # Constants live in the outer graph, where a body may read them.
        finals = set(map(id, body.outputs))
        for node in body.nodes:
            self._node(written, inner, node, finals)
        inside = {id(output) for node in body.nodes for output in node.outputs}
        for value in body.outputs:
            if id(value) in inside:
                inside.discard(id(value))
                name = self.called[id(value)]
            else:
                name = self._names.claim("body.out")
                self._copy(written, value, name, "body/Identity")
            edges.append(self._edge(_OUTPUT, value, name))
        return _graph(written, self._names.claim("body"), edges, inner)


def _graph(nodes: list[bytes], name: str, edges: list[bytes], inner: list[bytes]) -> bytes:
    return b"".join((*nodes, field(_GRAPH_NAME, name.encode()), *edges, *inner))


def _entries(about: Mapping[str, str]) -> bytes:
    return b"".join(_entry(key, text) for key, text in sorted(about.items()))


def _entry(key: str, text: str) -> bytes:
    return field(_ABOUT, field(_FIRST, key.encode()) + field(_SECOND, text.encode()))


def _type(dtype: torch.dtype, sizes: Iterable[int | str | None] | None) -> bytes:
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
    return made.SerializeToString(deterministic=True)

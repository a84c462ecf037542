"""Makes one onnx_ir.Model of what was recorded: nothing dead, nothing twice, everything named."""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir import convenience

from . import batchnorm, dims, wire
from .naming import Names, namespace, node_name
from .polynomials import Poly
from .simplify import simpler
from .values import Absent, Body, Constant, Node, Value
from .weights import TorchTensor, as_stored, onnx_dtype

# The IR version that came with each opset: what an old runtime can read.
_IR = dict(zip(range(13, 27), (7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13)))
_RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
           "Multinomial", "Dropout"}  # fmt: skip


def live(nodes: list[Node], outputs: list[Value]) -> list[Node]:
    """The nodes that the outputs need, in order."""
    wanted = set(map(id, outputs))
    kept = []
    for node in reversed(nodes):
        if any(id(o) in wanted for o in node.outputs):
            kept.append(node)
            wanted.update(map(id, _reads(node)))
    kept.reverse()
    return kept


def _reads(node: Node):
    yield from (v for v in node.inputs if v is not None)
    for body in node.attributes.values():
        if isinstance(body, Body):
            body.nodes = live(body.nodes, body.outputs)
            yield from body.outputs
            for inner in body.nodes:
                yield from _reads(inner)


class _Merger:
    """Nodes and constants that compute the same thing become one, and pairs of nodes simpler."""

    def __init__(self) -> None:
        self.instead: dict[int, Value] = {}
        self._makers: dict[int, Node] = {}
        self._constants: dict[Any, list[Constant]] = {}

    def now(self, value: Value) -> Value:
        found = self.instead.get(id(value))
        if found is not None:
            return found
        if isinstance(value, Constant):
            alike = self._constants.setdefault(_alike(value), [])
            same = next((c for c in alike if _equal(c, value)), None)
            if same is None:
                alike.append(same := value)
            self.instead[id(value)] = same
            return same
        return value

    def merge(self, nodes: list[Node], seen: dict[Any, Node]) -> list[Node]:
        kept = []
        for node in nodes:
            node.inputs = [None if v is None else self.now(v) for v in node.inputs]
            if node.op == "Identity" and not node.domain:
                self.instead[id(node.outputs[0])] = node.inputs[0]  # type: ignore[assignment]
                continue
            same = simpler(node, self._makers)
            if same is not None:
                self.instead[id(node.outputs[0])] = same
                continue
            bodies = [b for b in node.attributes.values() if isinstance(b, Body)]
            for body in bodies:
                body.nodes = self.merge(body.nodes, dict(seen))
                body.outputs = [self.now(v) for v in body.outputs]
            if bodies or (node.op in _RANDOM and not node.domain):
                kept.append(node)
                continue
            key = (node.op, node.domain, tuple(map(id, node.inputs)), _spell(node.attributes),
                   len(node.outputs))  # fmt: skip
            first = seen.setdefault(key, node)
            if first is node:
                kept.append(node)
                self._makers.update((id(output), node) for output in node.outputs)
            else:
                for old, new in zip(node.outputs, first.outputs):
                    self.instead[id(old)] = new
        return kept


def _spell(attributes: dict) -> tuple:
    return tuple(
        (k, v.numpy().tobytes() if isinstance(v, torch.Tensor) else repr(v))
        for k, v in sorted(attributes.items())
    )


def _alike(value: Constant) -> Any:
    """A key that equal constants share. What has a name is equal only to the same memory."""
    tensor = value.tensor
    if isinstance(value, Absent):
        return id(value) if value.content is None else value.content.region()
    if value.name:
        return tensor.dtype, tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride())
    flat = tensor.detach().reshape(-1)
    return (
        tensor.dtype,
        tuple(tensor.shape),
        tuple(_raw(flat[:: max(1, flat.numel() // 64)]).tolist()),
    )


def _equal(a: Constant, b: Constant) -> bool:
    """By their bits: zeros of either sign differ, and the same NaN is the same."""
    if a.name or isinstance(b, Absent):
        return True  # their keys say so
    return torch.equal(_raw(a.tensor), _raw(b.tensor))


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj()).reshape(-1)
    if not flat.numel():
        return flat
    # A single element counts as contiguous whatever its stride is.
    whole = flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)
    return whole.view(torch.uint8)


def build(
    nodes: list[Node],
    inputs: list[Value],
    outputs: list[tuple[str, Value]],
    *,
    opset: int,
    domains: dict[str, int],
    classes: dict[str, str],
    name: str,
    names: dict[int, str] | None = None,
) -> ir.Model:
    """The model; `names` is filled with what each value is called in it, by the value's id."""
    nodes = live(nodes, [v for _, v in outputs])
    merger = _Merger()
    nodes = merger.merge(nodes, {})
    outputs = [(n, merger.now(v)) for n, v in outputs]
    wanted = [v for _, v in outputs]
    nodes = live(nodes, wanted)
    uses = Counter(id(v) for node in nodes for v in _reads(node))
    uses.update(map(id, wanted))
    nodes = batchnorm.fold(nodes, uses)
    assembler = _Assembler(inputs, opset, domains, classes)
    model = assembler.model(nodes, outputs, name)
    if names is not None:
        found = {key: value.name or "" for key, value in assembler.values.items()}
        names.update(found)
        names.update((k, found[id(v)]) for k, v in merger.instead.items() if id(v) in found)
    return model


class _Assembler:
    def __init__(self, inputs, opset, domains, classes) -> None:
        self.opset = opset
        self.domains = domains
        self.classes = classes
        self.inputs = inputs
        self.names = Names()
        self.values: dict[int, ir.Value] = {}
        self.initializers: list[ir.Value] = []
        self.namespaces: dict[str, str] = {}  # by scope
        self.sizes: dict[Poly, str | None] = {}  # as they are spelled

    def model(self, nodes: list[Node], outputs: list[tuple[str, Value]], name: str) -> ir.Model:
        graph_inputs = []
        for value in self.inputs:
            made = self.values[id(value)] = self.edge(value, self.names.claim(value.name))
            graph_inputs.append(made)
        taken = set(map(id, self.inputs))
        given: dict[int, str] = {}
        extra: list[tuple[str, Value]] = []
        wanted = []
        for out_name, value in outputs:
            claimed = self.names.claim(out_name)
            wanted.append((claimed, value))
            # An output that is an input, a constant, or another output needs a node of its own.
            if id(value) in taken or isinstance(value, Constant) or id(value) in given:
                extra.append((claimed, value))
            else:
                given[id(value)] = claimed
        self.given = given
        made_nodes = [self.node(n) for n in nodes]
        copies: dict[str, ir.Value] = {}
        for claimed, value in extra:
            out = self.edge(value, claimed)
            made_nodes.append(
                ir.Node("", "Identity", [self.value(value)], outputs=[out],
                        name=self.names.claim(f"{claimed}/Identity"))
            )  # fmt: skip
            copies[claimed] = out
        graph = ir.Graph(
            graph_inputs,
            [copies.get(n) or self.values[id(v)] for n, v in wanted],
            nodes=made_nodes,
            initializers=self.initializers,
            opset_imports={"": self.opset, **dict(sorted(self.domains.items()))},
            name=name,
        )
        return ir.Model(graph, ir_version=_IR[self.opset], producer_name="hx")

    def value(self, value: Value) -> ir.Value:
        found = self.values.get(id(value))
        if found is None:
            if not isinstance(value, Constant):
                raise AssertionError(f"{value!r} is read before it is written")
            name = self.names.claim(value.name or "const")
            found = self.values[id(value)] = ir.Value(
                name=name,
                type=ir.TensorType(onnx_dtype(value.dtype)),
                shape=ir.Shape(list(value.tensor.shape)),
                const_value=as_stored(value, name),
            )
            if wire.is_early(value.name, value.tensor):
                found.meta[wire.EARLY] = True
            self.initializers.append(found)
        return found

    def edge(self, value: Value, name: str) -> ir.Value:
        """A value that is no initializer."""
        shape = None
        if value.shape is not None:
            shape = ir.Shape([self.dimension(n) for n in value.shape])
        kind = None if value.dtype is None else ir.TensorType(onnx_dtype(value.dtype))
        return ir.Value(name=name, type=kind, shape=shape)

    def dimension(self, n: int) -> int | str | None:
        if type(n) is not dims.Dim:
            return int(n)
        if n.poly not in self.sizes:
            # A size that only the engine can follow stays without a name.
            self.sizes[n.poly] = str(n.poly) if n.poly.named() else None
        return self.sizes[n.poly]

    def node(self, node: Node) -> ir.Node:
        inputs = [None if v is None else self.value(v) for v in node.inputs]
        origin = node.origin
        scope = origin.scope if origin is not None else ""
        name = self.names.claim(node_name(scope, node.op))
        outputs = []
        for i, value in enumerate(node.outputs):
            wanted = self.given.get(id(value))
            if wanted is None:
                wanted = self.names.claim(f"{name}.{i}" if len(node.outputs) > 1 else f"{name}.out")
            made = self.values[id(value)] = self.edge(value, wanted)
            outputs.append(made)
        attributes = [self.attribute(k, v) for k, v in node.attributes.items()]
        about = {} if origin is None else self.provenance(origin)
        about.update(node.notes)
        return ir.Node(
            node.domain, node.op, inputs, attributes, outputs=outputs, name=name,
            metadata_props=about,
        )  # fmt: skip

    def namespace(self, scope: str) -> str:
        found = self.namespaces.get(scope)
        if found is None:
            path = namespace(scope, self.classes)
            found = self.namespaces[scope] = f"{path}/" if path else ""
        return found

    def provenance(self, origin) -> dict[str, str]:
        props = {
            "namespace": f"{self.namespace(origin.scope)}: {origin.target}",
            "hx.module": origin.scope,
            "hx.target": origin.target,
            "hx.pack": origin.pack,
        }
        if origin.code is not None:
            props["hx.source"] = f"{origin.code.co_filename}:{origin.line}"
        return props

    def attribute(self, name: str, v: Any) -> ir.Attr:
        if isinstance(v, Body):
            return ir.AttrGraph(name, self.body(v))
        if isinstance(v, torch.Tensor):
            return ir.AttrTensor(name, TorchTensor(v, name=name))
        plain = _plain_attribute(name, v)
        return convenience.convert_attribute(name, v) if plain is None else plain

    def body(self, body: Body) -> ir.Graph:
        inputs = []
        for value in body.inputs:
            made = self.values[id(value)] = self.edge(value, self.names.claim("body.in"))
            inputs.append(made)
        # Constants live in the outer graph, where a body may read them.
        nodes = [self.node(n) for n in body.nodes]
        inside = {id(o) for n in body.nodes for o in n.outputs}
        outputs = []
        for value in body.outputs:
            if id(value) in inside:
                inside.discard(id(value))
                outputs.append(self.values[id(value)])
                continue
            out = self.edge(value, self.names.claim("body.out"))
            nodes.append(ir.Node("", "Identity", [self.value(value)], outputs=[out],
                                 name=self.names.claim("body/Identity")))  # fmt: skip
            outputs.append(out)
        return ir.Graph(inputs, outputs, nodes=nodes, name=self.names.claim("body"))


def _plain_attribute(name: str, v: Any) -> ir.Attr | None:
    """Numbers, words and lists of them; onnx_ir's own conversion tries every protocol first."""
    if isinstance(v, (list, tuple)):
        if all(isinstance(each, int) for each in v):
            return ir.AttrInt64s(name, v)
        return (
            ir.AttrFloat32s(name, v) if all(isinstance(each, (int, float)) for each in v) else None
        )
    if isinstance(v, int):
        return ir.AttrInt64(name, v)
    if isinstance(v, float):
        return ir.AttrFloat32(name, v)
    return ir.AttrString(name, v) if isinstance(v, str) else None

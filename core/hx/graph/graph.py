"""Makes one graph of what was recorded: nothing dead, nothing twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from ..saving.wire import Parts
from ..tensors.values import Absent, Body, Constant, Node, Value
from . import batchnorm, counted, doubles, transposed, undivided, unjoined, unmoved
from .assembly import Assembly
from .batchnorm import Folds
from .simplify import simpler

# What onnxruntime gets right in another form alone: each with the operators that it is about.
_APART = (doubles, unjoined, counted, unmoved, undivided)
RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
           "Multinomial", "Dropout"}  # fmt: skip


def live(nodes: list[Node], outputs: list[Value]) -> list[Node]:
    """The nodes that the outputs need, in order."""
    return _live(nodes, outputs)[0]


def _live(nodes: list[Node], outputs: list[Value]) -> tuple[list[Node], set[int]]:
    """The same, and the ids of all that they read: bodies in bodies are gone through once."""
    wanted = set(map(id, outputs))
    kept = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(map(id, node.outputs)):
            kept.append(node)
            wanted.update(map(id, node.inputs))
            for body in _bodies(node) if node.attributes else ():
                body.nodes, read = _live(body.nodes, body.outputs)
                wanted |= read
    kept.reverse()
    return kept, wanted


def _reads(node: Node) -> list[Any]:
    """The values that a node reads, and its bodies; None where it was given nothing."""
    reads = list(node.inputs)
    for body in _bodies(node) if node.attributes else ():
        reads += body.outputs
        for inner in body.nodes:
            reads += _reads(inner)
    return reads


def _bodies(node: Node) -> list[Body]:
    return [v for v in node.attributes.values() if type(v) is Body]


def _operators(nodes: list[Node]) -> set[str]:
    """Those of nodes, and of the bodies in them."""
    found = {node.op for node in nodes}
    for node in nodes:
        for body in _bodies(node) if node.attributes else ():
            found |= _operators(body.nodes)
    return found


class _Merger:
    """Nodes and constants that compute the same thing become one, and pairs of nodes simpler."""

    def __init__(self) -> None:
        self.instead: dict[int, Value] = {}
        self._makers: dict[int, Node] = {}
        self._constants: dict[Any, list[Constant]] = {}
        self._spelled: dict[int, tuple[dict, tuple]] = {}  # by id: nodes that are alike share them

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
            bodies = _bodies(node) if node.attributes else []
            for body in bodies:
                body.nodes = self.merge(body.nodes, dict(seen))
                body.outputs = [self.now(v) for v in body.outputs]
            if bodies or (node.op in RANDOM and not node.domain):
                kept.append(node)
                continue
            key = (node.op, node.domain, tuple(map(id, node.inputs)),
                   self._spell(node.attributes), len(node.outputs))  # fmt: skip
            first = seen.setdefault(key, node)
            if first is node:
                kept.append(node)
                self._makers.update((id(output), node) for output in node.outputs)
            else:
                for old, new in zip(node.outputs, first.outputs):
                    self.instead[id(old)] = new
        return kept

    def _spell(self, attributes: dict) -> tuple:
        if not attributes:
            return ()
        known = self._spelled.get(id(attributes))
        if known is None:
            spelled = tuple(
                (k, v.numpy().tobytes() if isinstance(v, torch.Tensor) else repr(v))
                for k, v in sorted(attributes.items())
            )
            known = self._spelled[id(attributes)] = attributes, spelled
        return known[1]


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
        tuple(raw(flat[:: max(1, flat.numel() // 64)]).tolist()),
    )


def _equal(a: Constant, b: Constant) -> bool:
    """By their bits: zeros of either sign differ, and the same NaN is the same."""
    if a.name or isinstance(b, Absent):
        return True  # their keys say so
    return same_bits(a.tensor, b.tensor)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two of one dtype hold the same; one may lie on a GPU, and the other not."""
    first, second = raw(a), raw(b)
    return torch.equal(first, second.to(first.device))


def raw(tensor: torch.Tensor) -> torch.Tensor:
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
    folds: Folds | None = None,
) -> Parts:
    """What the file is made of; `names` is filled with what each value is called, by its id.

    `folds` has what was folded while the model ran.
    """
    nodes = live(nodes, [v for _, v in outputs])
    merger = _Merger()
    nodes = merger.merge(nodes, {})
    outputs = [(n, merger.now(v)) for n, v in outputs]
    wanted = [v for _, v in outputs]
    nodes = live(nodes, wanted)
    operators = _operators(nodes)
    for one in _APART:
        if not one.OPERATORS.isdisjoint(operators):
            nodes = one.apart(nodes)
    read = list(wanted)
    for node in nodes:
        read += _reads(node)
    uses = Counter(map(id, read))
    nodes = transposed.fold(nodes, uses, set(map(id, wanted)))
    nodes = batchnorm.fold(nodes, uses, folds or Folds())
    assembly = Assembly(inputs, opset, domains, classes)
    parts = assembly.parts(nodes, outputs, name)
    if names is not None:
        called = assembly.called
        names.update(called)
        names.update((k, called[id(v)]) for k, v in merger.instead.items() if id(v) in called)
    return parts

"""One graph from recorded nodes: dead nodes dropped, equal ones merged, rules and folds applied."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from ..contributions import GraphPass
from ..ir.node_reads import with_inner
from ..ir.random_draws import RANDOM
from ..ir.value import Absent, Constant, Node, Value
from ..tensor_bytes import bits, same_bits
from . import batchnorm, runtime_rules, transposed
from .assembly import Assembly
from .batchnorm import Folds
from .model_parts import Parts
from .simplify import simpler


def live(nodes: list[Node], outputs: list[Value]) -> list[Node]:
    """The nodes that the outputs need, in order."""
    return _live(nodes, outputs)[0]


def _live(nodes: list[Node], outputs: list[Value]) -> tuple[list[Node], set[int]]:
    """The nodes, and the ids of all that they read; each nested body is visited once."""
    wanted = set(map(id, outputs))
    kept = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(map(id, node.outputs)):
            kept.append(node)
            wanted.update(map(id, node.inputs))
            for body in node.bodies:
                body.nodes, read = _live(body.nodes, body.outputs)
                wanted |= read
    kept.reverse()
    return kept, wanted


class _Merger:
    """Merge nodes and constants that compute the same, and simplify pairs of nodes."""

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
            bodies = node.bodies
            for body in bodies:
                body.nodes = self.merge(body.nodes, dict(seen))
                body.outputs = [self.now(v) for v in body.outputs]
            if bodies or (not node.domain and (node.op in RANDOM or node.op == "Dropout")):
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
    """A key that equal constants share. A named one equals only the same memory."""
    tensor = value.tensor
    if isinstance(value, Absent):
        return id(value) if value.content is None else value.content.region()
    if value.name:
        return tensor.dtype, tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride())
    flat = tensor.detach().reshape(-1)
    return (
        tensor.dtype,
        tuple(tensor.shape),
        tuple(bits(flat[:: max(1, flat.numel() // 64)]).tolist()),
    )


def _equal(a: Constant, b: Constant) -> bool:
    """Compare bits: 0.0 and -0.0 differ, and a NaN equals itself."""
    if a.name or isinstance(b, Absent):
        return True  # their keys are equal only for the same memory
    return same_bits(a.tensor, b.tensor)


@dataclass
class Draft:
    """A graph before its values have names."""

    nodes: list[Node]
    outputs: list[tuple[str, Value]]
    folds: Folds
    instead: dict[int, Value] = field(default_factory=dict)  # by id: what replaces a merged value

    @property
    def results(self) -> list[Value]:
        return [value for _, value in self.outputs]

    @functools.cached_property
    def uses(self) -> Counter[int]:
        """The number of readers of each value, by its id, before any weight is folded."""
        read: list[Any] = self.results
        for node in with_inner(self.nodes):
            read += node.inputs
            for body in node.bodies:
                read += body.outputs
        return Counter(map(id, read))


def drop_unread(draft: Draft) -> None:
    draft.nodes = live(draft.nodes, draft.results)


def merge_equal(draft: Draft) -> None:
    merger = _Merger()
    draft.nodes = merger.merge(draft.nodes, {})
    draft.outputs = [(name, merger.now(value)) for name, value in draft.outputs]
    draft.instead = merger.instead


def avoid_faults(draft: Draft) -> None:
    draft.nodes = runtime_rules.apply(draft.nodes)


def store_transposed(draft: Draft) -> None:
    draft.nodes = transposed.fold(draft.nodes, draft.uses, set(map(id, draft.results)))


def fold_normalizations(draft: Draft) -> None:
    draft.nodes = batchnorm.fold(draft.nodes, draft.uses, draft.folds)


# In this order; those of packs (`hx_passes`) follow, on the finished model.
PASSES: tuple[GraphPass[Draft], ...] = (
    GraphPass("drop-unread", drop_unread, "drops nodes that no output follows from"),
    GraphPass("merge-equal", merge_equal, "merges equal nodes, and simplifies pairs of nodes"),
    GraphPass("drop-unread", drop_unread, "drops nodes that nothing reads any more"),
    GraphPass("avoid-faults", avoid_faults, "rewrites nodes that onnxruntime computes wrongly"),
    GraphPass("store-transposed", store_transposed, "stores weights as the graph reads them"),
    GraphPass("fold-normalizations", fold_normalizations, "folds factors into weights"),
)


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
    """The parts of a file; `names` receives the name of each value, by its id.

    `folds` holds the normalizations that were folded while the model ran.
    """
    draft = Draft(nodes, outputs, folds or Folds())
    for graph_pass in PASSES:
        draft = graph_pass.result(draft)
    assembly = Assembly(inputs, opset, domains, classes)
    parts = assembly.parts(draft.nodes, draft.outputs, name)
    if names is not None:
        called = assembly.names
        names.update(called)
        names.update((k, called[id(v)]) for k, v in draft.instead.items() if id(v) in called)
    return parts

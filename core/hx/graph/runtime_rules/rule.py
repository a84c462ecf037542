"""One rule for a fault of onnxruntime, and what a rule may ask about the nodes around its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ...ir.value import Node, Value

Fact = TypeVar("Fact")


class Scope:
    """The nodes of one graph or body before any rule changes them, and the scopes around it."""

    def __init__(self, nodes: list[Node], outer: Scope | None = None) -> None:
        self.nodes = nodes
        self.outer = outer
        self._facts: dict[Callable[[Scope], Any], Any] = {}

    def fact(self, find: Callable[[Scope], Fact]) -> Fact:
        """The result of `find(scope)`, computed once."""
        if find not in self._facts:
            self._facts[find] = find(self)
        return self._facts[find]

    def maker(self, value: Value | None) -> Node | None:
        """The node that computes a value, in this scope or in one around it."""
        found = self.fact(_makers).get(id(value))
        return found if found is not None or self.outer is None else self.outer.maker(value)

    def readers(self, value: Value) -> list[Node]:
        """The nodes of this scope that read a value."""
        return self.fact(_readers).get(id(value), [])


def _makers(scope: Scope) -> dict[int, Node]:
    return {id(output): node for node in scope.nodes for output in node.outputs}


def _readers(scope: Scope) -> dict[int, list[Node]]:
    found = defaultdict(list)
    for node in scope.nodes:
        for value in node.inputs:
            found[id(value)].append(node)
    return found


@dataclass(frozen=True)
class Rule:
    """A form of certain nodes that onnxruntime computes right.

    `rewrite` gets a node and its scope. It returns the nodes that replace this one, or None where
    the node is right as it is; it changes neither the node nor its values.
    """

    name: str
    ops: tuple[str, ...]  # operators of ONNX's own domain that it may rewrite
    reason: str  # the fault of onnxruntime
    rewrite: Callable[[Node, Scope], list[Node] | None]


def changed(
    node: Node, *, inputs: list[Value | None] | None = None, outputs: list[Value] | None = None
) -> Node:
    """A copy of a node that reads or gives other values."""
    made = Node(
        node.op,
        node.domain,
        node.inputs if inputs is None else inputs,
        node.outputs if outputs is None else outputs,
        node.attributes,
        node.origin,
    )
    made.notes = node.notes
    return made


def rewritten(nodes: list[Node], rules: tuple[Rule, ...]) -> list[Node]:
    """The nodes after the first rule for each that applies; bodies in them are rewritten in place."""
    by_op: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        for op in rule.ops:
            by_op[op].append(rule)
    return _rewritten(nodes, by_op, None)


def _rewritten(nodes: list[Node], by_op: dict[str, list[Rule]], outer: Scope | None) -> list[Node]:
    scope = Scope(nodes, outer)
    kept: list[Node] = []
    for node in nodes:
        for body in node.bodies:
            body.nodes = _rewritten(body.nodes, by_op, scope)
        instead = None
        if not node.domain and node.op in by_op:
            found = (rule.rewrite(node, scope) for rule in by_op[node.op])
            instead = next((each for each in found if each is not None), None)
        if instead is None:
            kept.append(node)
        else:
            kept += instead
    return kept

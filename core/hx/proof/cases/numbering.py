"""Which values are the same, as the same is computed from the same: `y.unique()`, asked anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...tensors.values import Body, Constant, Node, Value

FEW = 16  # elements that are compared
_DRAW = frozenset(("Bernoulli", "Multinomial"))


def alike(nodes: Iterable[Node]) -> dict[int, int]:
    """By the id of what a node makes, a number: the same for those that are the same."""
    numbers: dict[int, int] = {}
    known: dict[Any, int] = {}

    def number(value: Value | None) -> Any:
        if value is None or id(value) in numbers:
            return None if value is None else numbers[id(value)]
        if isinstance(value, Constant) and value.is_constant and value.tensor.numel() <= FEW:
            return str(value.dtype), str(value.tensor.tolist())
        return "given", id(value)

    for node in nodes:
        key: tuple[Any, ...] = (node.op, node.domain, str(node.attributes))
        own = node.op in _DRAW or node.op.startswith("Random")
        if own or any(isinstance(each, Body) for each in node.attributes.values()):
            key = (*key, id(node))
        key = (*key, *map(number, node.inputs))
        for place, value in enumerate(node.outputs):
            numbers[id(value)] = known.setdefault((*key, place), len(known))
    return numbers

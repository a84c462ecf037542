"""Detection of equal values: one operation on the same inputs, as `y.unique()` called twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..budget import BUDGET
from .random_draws import RANDOM
from .value import Constant, Node, Value


def alike(nodes: Iterable[Node]) -> dict[int, int]:
    """Number the outputs of nodes, by id; outputs that are equal share a number."""
    numbers: dict[int, int] = {}
    known: dict[Any, int] = {}

    def number(value: Value | None) -> Any:
        if value is None or id(value) in numbers:
            return None if value is None else numbers[id(value)]
        if (
            isinstance(value, Constant)
            and value.is_constant
            and value.tensor.numel() <= BUDGET.elements.counter
        ):
            return str(value.dtype), str(value.tensor.tolist())
        return "given", id(value)

    for node in nodes:
        key: tuple[Any, ...] = (node.op, node.domain, str(node.attributes))
        if node.op in RANDOM or node.bodies:
            key = (*key, id(node))
        key = (*key, *map(number, node.inputs))
        for place, value in enumerate(node.outputs):
            numbers[id(value)] = known.setdefault((*key, place), len(known))
    return numbers

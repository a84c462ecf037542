"""Questions about sizes that a model asks through tensors: `x.size(1) > self.limit`, a buffer.

What such a tensor says follows from sizes and constants alone. It is the same question as between
numbers, and told like one: the proof then knows at which sizes it has another answer.
"""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model
from dataclasses import dataclass
from typing import Any

from ..sizes import dims
from ..sizes.asked import SIGNS, Asked
from ..sizes.polynomials import Poly, settled
from ..sizes.shapes import Unknown, elements
from ..tensors.values import Value

_COMPARES = {
    "Less": "<",
    "LessOrEqual": "<=",
    "Greater": ">",
    "GreaterOrEqual": ">=",
    "Equal": "==",
}
_SAME = frozenset(("Cast", "Squeeze", "Unsqueeze", "Reshape"))  # of one element


@dataclass(frozen=True)
class Answer:
    """What a truth value was in the recording, and what it depends on, in words and to be asked."""

    yes: bool
    told: str
    asked: tuple[Asked, ...]


def answer(value: Value | None) -> Answer | None:
    """What it says, where that follows from sizes alone; else nothing."""
    node = None if value is None else value.node
    if node is None or node.domain:
        return None
    if node.op in _COMPARES:
        return _compared(_COMPARES[node.op], *map(_number, node.inputs))
    if node.op == "Not" or node.op in _SAME:
        inside = answer(node.inputs[0])
        if inside is None or node.op in _SAME:
            return inside
        return Answer(not inside.yes, f"not ({inside.told})", inside.asked)
    if node.op in ("And", "Or"):
        one, other = map(answer, node.inputs)
        if one is None or other is None:
            return None
        yes = one.yes and other.yes if node.op == "And" else one.yes or other.yes
        return Answer(yes, f"{one.told} {node.op.lower()} {other.told}", one.asked + other.asked)
    return None


def _compared(sign: str, a: Any, b: Any) -> Answer | None:
    if a is None or b is None:
        return None
    yes = SIGNS[sign](dims.plain(a), dims.plain(b))
    told = f"{dims.spelled(a)} {sign} {dims.spelled(b)}"
    known = type(a) is not float and type(b) is not float and (
        settled(sign, Poly.of(a), Poly.of(b)) or Poly.of(a) == Poly.of(b)
    )  # fmt: skip
    return Answer(yes, told, () if known else (dims.asked(SIGNS[sign], a, b),))


def _number(value: Value | None) -> Any:
    """The size, or the plain number, that is all there is in it."""
    try:
        found = elements(value)
    except Unknown:
        node = None if value is None else value.node
        alone = node is not None and not node.domain and len(node.inputs) == 1
        if node is not None and (node.op in _SAME or (alone and node.op == "Concat")):
            return _number(node.inputs[0])
        return None
    return found[0] if len(found) == 1 and type(found[0]) in (int, float, dims.Dim) else None

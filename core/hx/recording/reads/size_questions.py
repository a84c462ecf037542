"""Questions about sizes that a model asks through tensors: `x.size(1) > self.limit`, a buffer.

Such a tensor follows from sizes and constants alone. The question is the same as between numbers,
and noted like one: the proof then knows the sizes at which its answer differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ir.random_draws import RANDOM
from ...ir.sizes import dims
from ...ir.sizes.comparisons import SIGNS, Asked
from ...ir.sizes.size_polynomials import Atom
from ...ir.value import Node, Value
from .element_positions import COMPARES, extremes, is_settled, number, positions_of

_SAME = frozenset(("Cast", "Squeeze", "Unsqueeze", "Reshape"))  # of one element


@dataclass(frozen=True)
class Answer:
    """A truth value in the recording, and the sizes that it depends on, in words and as questions."""

    yes: bool
    text: str
    asked: tuple[Asked, ...]


def answer(value: Value | None) -> Answer | None:
    """The answer of a truth value that follows from sizes alone; None for any other."""
    return _by_operator(value) or _compared("!=", number(value), 0)


def _by_operator(value: Value | None) -> Answer | None:
    node = None if value is None else value.node
    if node is None or node.domain:
        return None
    if node.op in COMPARES:
        return _compared(COMPARES[node.op], *map(number, node.inputs))
    if node.op == "Not" or node.op in _SAME:
        inside = answer(node.inputs[0])
        if inside is None or node.op in _SAME:
            return inside
        return Answer(not inside.yes, f"not ({inside.text})", inside.asked)
    if node.op in ("And", "Or"):
        one, other = map(answer, node.inputs)
        if one is None or other is None:
            return None
        yes = one.yes and other.yes if node.op == "And" else one.yes or other.yes
        return Answer(yes, f"{one.text} {node.op.lower()} {other.text}", one.asked + other.asked)
    if node.op in ("ReduceMax", "ReduceMin"):
        return _of_all(node, any_of_them=node.op == "ReduceMax")
    return None


def _of_all(node: Node, any_of_them: bool) -> Answer | None:
    """The answer if any or all of a row of numbers are above another: its ends decide."""
    inner = node.inputs[0]
    while inner is not None and inner.node is not None and inner.node.op == "Cast":
        inner = inner.node.inputs[0]
    compare = None if inner is None else inner.node
    sign = "" if compare is None or compare.domain else COMPARES.get(compare.op, "")
    if compare is None or sign in ("", "==") or node.outputs[0].numel() != 1:
        return None
    one, other = compare.inputs
    a, b = positions_of(one), positions_of(other)
    if one is None or other is None or a is None or b is None or not (a.alike or b.alike):
        return None
    ends, others = extremes(a, one.shape or ()), extremes(b, other.shape or ())
    if ends is None or others is None:
        return None
    which = int((sign[0] == ">") == any_of_them)  # of all that may be above, the highest is
    return _compared(sign, ends[which], others[1 - which])


def counted(value: Value, result: Any) -> Any:
    """The number in it, as a size that remembers."""
    found = number(value)
    if type(found) is dims.Dim and type(result) is float:
        found = found * 1.0
    return found if dims.is_dynamic(found) and dims.plain(found) == result else None


def taken(value: Value, result: Any) -> Asked:
    """The question behind a number or truth value of sizes that Python takes."""
    known = number(value)
    if type(result) is int and dims.is_dynamic(known) and dims.plain(known) == result:
        return dims.asked(int, known)
    return Asked(bool, (Atom("item", (value,), result),))  # nobody knows at which sizes it changes


def alone(value: Value) -> bool:
    """Return True if a value reads no input, and so follows from sizes in an unknown way."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if value in seen or value.fixed or value.elements is not None:
            continue
        seen.add(value)
        node = value.node
        if node is None or node.domain or node.op in RANDOM or node.bodies:
            return False
        if node.op not in ("Shape", "Size"):
            waiting += [each for each in node.inputs if each is not None]
    return True


def _compared(sign: str, a: Any, b: Any) -> Answer | None:
    if a is None or b is None:
        return None
    yes = SIGNS[sign](dims.plain(a), dims.plain(b))
    told = f"{dims.spelled(a)} {sign} {dims.spelled(b)}"
    return Answer(yes, told, () if is_settled(sign, a, b) else (dims.asked(SIGNS[sign], a, b),))

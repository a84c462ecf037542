"""Elements of tensors that sizes alone fill: one number throughout, or evenly rising positions.

`torch.arange(n).max() + 1` is the size n, computed through tensors. The result is known here, so
the model gets it as a number that remembers. Only integers are followed, alone or combined with
constants: floats are rounded on the way.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...budget import BUDGET
from ...ir.shapes import Unknown, axis_of, elements, product, same
from ...ir.sizes import dims
from ...ir.sizes.bounds import settled, sure_sign
from ...ir.sizes.comparisons import SIGNS
from ...ir.sizes.size_polynomials import Poly
from ...ir.value import Constant, Node, Value

COMPARES = {
    "Less": "<",
    "LessOrEqual": "<=",
    "Greater": ">",
    "GreaterOrEqual": ">=",
    "Equal": "==",
}
_KINDS = (torch.int64, torch.int32, torch.float32, torch.float64, torch.bool, torch.uint8)


@dataclass(frozen=True)
class Positions:
    """The first number along an axis, and the step from each to the next.

    Along all other axes the numbers are equal; without a step, all of them are.
    """

    first: Any
    step: Any = 0
    axis: int = 0

    @property
    def alike(self) -> bool:
        return type(self.step) is int and self.step == 0

    def at(self, place: Any) -> Any:
        return self.first + self.step * place

    def along(self, axis: int) -> Positions:
        return Positions(self.first, self.step, axis)


def number(value: Value | None) -> Any:
    """The size or plain number that all elements equal; None where it is not known."""
    row = positions_of(value)
    return row.first if row is not None and row.alike else None


def positions_of(
    value: Value | None, seen: dict[Value, Positions | None] | None = None
) -> Positions | None:
    """The elements of a value, if they are such a row."""
    if value is None or value.shape is None or value.dtype not in _KINDS:
        return None
    if not {type(n) for n in value.shape} <= {int, dims.Dim}:
        return None
    try:
        return _listed(elements(value))
    except Unknown:
        if isinstance(value, Constant):
            return _of_constant(value)
    seen, node = {} if seen is None else seen, value.node
    rule = None if node is None or node.domain else _RULES.get(node.op)
    if (
        rule is not None
        and node is not None
        and value not in seen
        and len(seen) < BUDGET.nodes.size_formula
    ):
        seen[value] = None
        with contextlib.suppress(Unknown):
            seen[value] = rule(node, lambda i: positions_of(node.inputs[i], seen))
    return seen.get(value)


def _listed(given: tuple) -> Positions | None:
    """The row of numbers that are all there: of one, or of the same over and over."""
    found = [_whole(n) for n in given]
    if not found or any(type(n) not in (int, float, dims.Dim) for n in found):
        return None
    return Positions(found[0]) if all(same(n, found[0]) for n in found) else None


def _of_constant(value: Constant) -> Positions | None:
    """The positions in a constant buffer, of which a model takes as many as it needs."""
    shape = value.shape or ()
    long = [axis for axis, n in enumerate(shape) if n > 1]
    if not value.is_constant or len(long) != 1 or value.numel() > BUDGET.elements.table:
        return None
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        held = value.tensor.detach().reshape(-1)
        few = held.dtype in (torch.bool, torch.uint8)  # in which there are no steps down
        steps = held[:0] if few else held[1:] - held[:-1]
        if not steps.numel() or not bool((steps == steps[0]).all()):
            return None
        first, step = _whole(held[0].item()), _whole(steps[0].item())
    return (
        None if type(first) is not int or type(step) is not int else Positions(first, step, long[0])
    )


def extremes(row: Positions, shape: tuple) -> tuple[Any, Any] | None:
    """The smallest and the largest number in it."""
    if row.alike:
        return row.first, row.first
    sign, last = sure_sign(Poly.of(row.step)), row.at(shape[row.axis] - 1)
    return (row.first, last) if sign > 0 else (last, row.first) if sign else None


def axes_of(node: Node) -> list[int]:
    """The axes that it reduces, counted from the front."""
    given = node.attributes.get("axes")
    if given is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        given = elements(node.inputs[1])
    rank = len(_shape(node))
    found = [axis_of(axis, rank) for axis in given or ()]
    return found or ([] if node.attributes.get("noop_with_empty_axes") else list(range(rank)))


_Ask = Callable[[int], Positions | None]


def _whole(x: Any) -> Any:
    return int(x) if type(x) is bool or (type(x) is float and x.is_integer()) else x


def _shape(node: Node, place: int = 0) -> tuple:
    value = node.inputs[place]
    assert value is not None and value.shape is not None
    return value.shape


def _range(node: Node, ask: _Ask) -> Positions | None:
    first, step = ask(0), ask(2)
    if first is None or step is None or type(first.first) is float or type(step.first) is float:
        return None
    return Positions(first.first, step.first)


def _expand(node: Node, ask: _Ask) -> Positions | None:
    row, old, new = ask(0), _shape(node), node.outputs[0].shape
    if row is None or row.alike or new is None:
        return row
    return None if _is_one(old[row.axis]) else row.along(row.axis + len(new) - len(old))


def _again(node: Node, ask: _Ask) -> Positions | None:
    """Elements after axes of length one were added or removed."""
    row, old, new = ask(0), _shape(node), node.outputs[0].shape
    if row is None or row.alike or new is None:
        return row
    there = [axis for axis, n in enumerate(old) if not _is_one(n)]
    here = [axis for axis, n in enumerate(new) if not _is_one(n)]
    if len(there) != len(here) or not all(same(old[i], new[j]) for i, j in zip(there, here)):
        return None
    return row.along(here[there.index(row.axis)]) if row.axis in there else Positions(row.first)


def _joined(node: Node, ask: _Ask) -> Positions | None:
    return _again(node, ask) if len(node.inputs) == 1 else None


def _is_one(n: Any) -> bool:
    return type(n) is int and n == 1


def _transpose(node: Node, ask: _Ask) -> Positions | None:
    row, order = ask(0), node.attributes.get("perm")
    if row is None or row.alike:
        return row
    return None if order is None else row.along(list(order).index(row.axis))


def _cast(node: Node, ask: _Ask) -> Positions | None:
    row = ask(0)
    if node.outputs[0].dtype in (torch.bool, torch.uint8):
        few = row is not None and row.alike and type(row.first) is int and row.first in (0, 1)
        return row if few else None
    return None if row is None or type(row.first) is float else row


def _gather(node: Node, ask: _Ask) -> Positions | None:
    row, place = ask(0), ask(1)
    axis = axis_of(node.attributes.get("axis", 0), len(_shape(node)))
    if row is None or row.alike:
        return row
    if place is None or not place.alike or type(place.first) not in (int, dims.Dim):
        return None
    if axis == row.axis:
        behind = dims.plain(place.first) < 0
        return Positions(row.at(_shape(node)[axis] + place.first if behind else place.first))
    return row.along(row.axis - (axis < row.axis) + len(_shape(node, 1)) * (axis < row.axis))


def _slice(node: Node, ask: _Ask) -> Positions | None:
    row = ask(0)
    if row is None or row.alike:
        return row
    starts = elements(node.inputs[1])
    given = [*node.inputs[3:], None, None]
    axes = range(len(starts)) if given[0] is None else elements(given[0])
    steps = (1,) * len(starts) if given[1] is None else elements(given[1])
    for start, axis, by in zip(starts, axes, steps):
        n = _shape(node)[row.axis]
        if axis_of(axis, len(_shape(node))) == row.axis:
            if type(by) is not int or by < 1:
                return None
            first = dims.larger(n + start, 0) if dims.plain(start) < 0 else start
            row = Positions(row.at(first), row.step * by, row.axis)
    return row


def _add(node: Node, ask: _Ask) -> Positions | None:
    return _both(node, ask(0), ask(1), 1)


def _subtract(node: Node, ask: _Ask) -> Positions | None:
    return _both(node, ask(0), ask(1), -1)


def _both(node: Node, a: Positions | None, b: Positions | None, sign: int) -> Positions | None:
    if a is None or b is None or not (a.alike or b.alike or _axis(node, 0, a) == _axis(node, 1, b)):
        return None
    axis = _axis(node, 0, a) if b.alike else _axis(node, 1, b)
    return Positions(a.first + b.first * sign, a.step + b.step * sign, axis)


def _axis(node: Node, place: int, row: Positions) -> int:
    """The position of an axis in the result: shapes are aligned at their ends."""
    return row.axis + len(node.outputs[0].shape or ()) - len(_shape(node, place))


def _times(node: Node, ask: _Ask) -> Positions | None:
    a, b, place = ask(0), ask(1), 0
    if a is None or b is None or float in (type(a.first), type(b.first)):
        return None
    if not b.alike:
        a, b, place = b, a, 1
    if not b.alike:
        return None
    return Positions(a.first * b.first, a.step * b.first, _axis(node, place, a))


def _cumsum(node: Node, ask: _Ask) -> Positions | None:
    row, axis = ask(0), ask(1)
    turned = node.attributes.get("exclusive") or node.attributes.get("reverse")
    if row is None or axis is None or not row.alike or type(row.first) is float or turned:
        return None
    return Positions(row.first, row.first, axis_of(axis.first, len(_shape(node))))


def _largest(node: Node, ask: _Ask) -> Positions | None:
    return _reduced(node, ask(0), 1)


def _smallest(node: Node, ask: _Ask) -> Positions | None:
    return _reduced(node, ask(0), 0)


def _reduced(node: Node, row: Positions | None, which: int) -> Positions | None:
    axes = axes_of(node)
    if row is None and len(axes) == len(_shape(node)):
        return _end_of(_all_in(node.inputs[0]), which)
    if row is None or row.alike or row.axis not in axes:
        return row if row is None or row.alike else row.along(_left(node, row.axis, axes))
    found = extremes(row, _shape(node))
    return None if found is None else Positions(found[which])


def _all_in(value: Value | None) -> tuple:
    """The numbers of a short row of them, each of which may be a size."""
    node = None if value is None else value.node
    if node is not None and not node.domain and node.op == "Concat":
        if all(each is not None and each.shape == (1,) for each in node.inputs):
            return tuple(map(number, node.inputs))
    return elements(value)


def _end_of(given: tuple, which: int) -> Positions | None:
    """Return the smallest or largest of whole numbers and sizes, as for `min(h, w)`; else None."""
    found = [_whole(n) for n in given]
    if not 0 < len(found) <= BUDGET.nodes.size_formula or any(
        type(n) not in (int, dims.Dim) for n in found
    ):
        return None
    return Positions(functools.reduce((dims.smaller, dims.larger)[which], found))


def _remainder(node: Node, ask: _Ask) -> Positions | None:
    """The remainder of Python, and of ONNX for integers: with the sign of the divisor."""
    a, b = ask(0), ask(1)
    if a is None or b is None or not (a.alike and b.alike) or node.attributes.get("fmod"):
        return None
    if float in (type(a.first), type(b.first)) or dims.plain(b.first) == 0:
        return None
    return Positions(a.first % b.first)


def _total(node: Node, ask: _Ask) -> Positions | None:
    row, axes, shape = ask(0), axes_of(node), _shape(node)
    if row is None or type(row.first) is float:
        return None
    others = product(shape[axis] for axis in axes if row.alike or axis != row.axis)
    if row.alike or row.axis not in axes:
        axis = 0 if row.alike else _left(node, row.axis, axes)
        return Positions(row.first * others, row.step * others, axis)
    n = shape[row.axis]
    return Positions((row.first * n + row.step * (n * (n - 1) // 2)) * others)


def _left(node: Node, axis: int, gone: list[int]) -> int:
    """The position of an axis when others are reduced."""
    kept = node.attributes.get("keepdims", 1)
    return axis if kept else axis - len([each for each in gone if each < axis])


def _is_number(node: Node, ask: _Ask) -> Positions | None:
    return None if ask(0) is None else Positions(0)


def _compared(node: Node, ask: _Ask) -> Positions | None:
    """The answer of a comparison that is the same for all elements and at all sizes."""
    a, b, sign = ask(0), ask(1), COMPARES[node.op]
    if a is None or b is None or not (a.alike and b.alike and is_settled(sign, a.first, b.first)):
        return None
    return Positions(int(SIGNS[sign](dims.plain(a.first), dims.plain(b.first))))


def is_settled(sign: str, a: Any, b: Any) -> bool:
    """Return True if the answer of a comparison is the same at all sizes."""
    if not (dims.is_dynamic(a) or dims.is_dynamic(b)):
        return True
    if not {type(a), type(b)} <= {int, dims.Dim}:
        return False
    one, other = Poly.of(a), Poly.of(b)
    return settled(sign, one, other) or one == other


def _not(node: Node, ask: _Ask) -> Positions | None:
    row = ask(0)
    return Positions(1 - row.first) if row is not None and row.alike else None


def _where(node: Node, ask: _Ask) -> Positions | None:
    """One side of a condition's choice, if it is the same throughout: for example where no element
    is NaN.
    """
    which = ask(0)
    if which is None or not which.alike or type(which.first) is not int:
        return None
    place = 1 if which.first else 2
    row = ask(place)
    return row if row is None or row.alike else row.along(_axis(node, place, row))


_RULES: dict[str, Callable[[Node, _Ask], Positions | None]] = {
    "Range": _range, "Concat": _joined, "Expand": _expand, "Cast": _cast,
    "Reshape": _again, "Squeeze": _again, "Unsqueeze": _again, "Flatten": _again,
    "Identity": _again, "Transpose": _transpose, "Gather": _gather, "Slice": _slice,
    "Mod": _remainder, "Add": _add, "Sub": _subtract, "Mul": _times, "CumSum": _cumsum, "ReduceMax": _largest,
    "ReduceMin": _smallest, "ReduceSum": _total, "IsNaN": _is_number, "Where": _where,
    "Not": _not, **dict.fromkeys(COMPARES, _compared),
}  # fmt: skip

"""Helpers that the rules in `shape_rules` compute sizes of outputs with, as ints and Dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .sizes import dims, integer_functions
from .sizes.bounds import never_negative, settled, sure_sign
from .sizes.comparisons import At, Unforeseen
from .sizes.size_operations import from_something
from .sizes.size_polynomials import Poly
from .value import Constant, Value

Shape = tuple[int, ...]


class Unknown(Exception):
    pass


class _RunTime:
    """A size known only at run time: how many elements a mask picks. Arithmetic keeps it so."""

    def _same(self, *other):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __neg__ = _same


RUN_TIME: Any = _RunTime()


# Operators that read sizes from what is in an input: which inputs those are.
_CONTENTS: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,), "Expand": (1,), "OneHot": (1,), "Pad": (1,), "Range": (0, 1, 2),
    "Reshape": (1,), "Resize": (2, 3), "Slice": (1, 2, 4), "Split": (1,), "Tile": (1,),
    "TopK": (1,), "CenterCropPad": (1,), "MaxUnpool": (2,), "Col2Im": (1,),
}  # fmt: skip


def by_contents(op: str, inputs: list[Value | None]) -> bool:
    """Return True if output sizes depend on numbers that are only known at run time."""
    read = [inputs[i] for i in _CONTENTS.get(op, ()) if i < len(inputs)]
    return any(v is not None and v.elements is None and not v.is_constant for v in read)


def shape_of(value: Value | None) -> Shape:
    if value is None or value.shape is None:
        raise Unknown
    return value.shape


def elements(value: Value | None) -> tuple:
    """The sizes inside an int64 vector; None when they are not known."""
    if value is None:
        raise Unknown
    if value.elements is not None:
        return value.elements
    if (
        isinstance(value, Constant)
        and value.is_constant
        and value.rank <= 1
        and value.tensor.numel() < 64
    ):
        listed = value.tolist()
        return tuple(listed) if isinstance(listed, list) else (listed,)
    raise Unknown


def numbers(value: Value | None) -> tuple:
    """The sizes inside an int64 vector; if only their number is known, as many sizes of the run."""
    try:
        return elements(value)
    except Unknown:
        count = value.shape[0] if value is not None and value.shape and value.rank == 1 else None
        if type(count) is not int:
            raise
        return (RUN_TIME,) * count


def listed(numbers: Any) -> Value | None:
    """The vector that holds exactly these numbers in this order, as x.tolist() gives them."""
    found: Value | None = None
    for i, n in enumerate(numbers):
        atom = n.poly.atom if type(n) is dims.Dim else None
        whole = _whole_of(atom.args[0], i) if atom is not None and atom.kind == "item" else None
        if whole is None or (found is not None and whole is not found):
            return None
        found = whole
    if found is None or found.shape is None or len(found.shape) != 1:
        return None
    return found if dims.plain(found.shape[0]) == len(numbers) else None


def _whole_of(number: Value, place: int) -> Value | None:
    """The vector that has a number at this place: the source itself, or one of all of its parts."""
    node = number.node
    if node is None:
        return None
    if node.op == "Gather":
        return node.inputs[0] if getattr(node.inputs[1], "elements", 0) == (place,) else None
    part = node.inputs[0] if node.op == "Squeeze" else None
    split = None if part is None else part.node
    if part is None or split is None or split.op != "Split":
        return None
    alone = part.shape == (1,) and split.outputs[place : place + 1] == [part]
    return split.inputs[0] if alone else None


def same(a: int, b: int) -> bool:
    """Return True if two sizes are known to be equal in every run."""
    if type(a) is dims.DimFloat or type(b) is dims.DimFloat:
        return type(a) is type(b) and dims.spelled(a) == dims.spelled(b)
    if type(a) is dims.Dim or type(b) is dims.Dim:
        return Poly.of(a) == Poly.of(b)
    return a == b


def same_shape(a: Sequence[int] | None, b: Sequence[int] | None) -> bool:
    """Return True if two shapes are known, and equal in every run."""
    return a is not None and b is not None and len(a) == len(b) and all(map(same, a, b))


def broadcast(*shapes: Shape) -> Shape:
    """The common shape of two. Where two sizes that may vary meet, an axis of 1 is broadcast."""
    rank = max(map(len, shapes), default=0)
    out: list[int] = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            m = out[i]
            if type(n) is int and n == 1:
                continue
            if type(m) is int and m == 1:
                out[i] = n
            elif m is RUN_TIME or n is RUN_TIME:
                out[i] = n if type(n) is int else m if type(m) is int else RUN_TIME
            elif same(m, n):
                continue
            elif type(m) is dims.Dim and type(n) is dims.Dim:
                # Either may turn out to be 1 at run time: nobody can say which one it is,
                # unless one of them is 1 whenever the other is, or is the other, or is never 1.
                m_stays, n_stays = _gives_way(n, m), _gives_way(m, n)
                out[i] = m if m_stays else n if n_stays else RUN_TIME
            elif type(m) is dims.Dim:
                out[i] = n
    return tuple(out)


def _gives_way(n: dims.Dim, m: dims.Dim) -> bool:
    """Return True if broadcasting both gives m; of two equal sizes, the shorter text wins."""
    if from_something(n.poly) == from_something(m.poly):
        return len(str(m.poly)) <= len(str(n.poly))
    return _cut(n, m) or _floored(n, m) or _is_one_with(n, m) or settled("!=", m.poly, Poly.of(1))


def _is_one_with(n: dims.Dim, m: dims.Dim) -> bool:
    """Return True if n is 1 where m is: `h // 2 * 2 + 1` beside h, which is odd wherever both fit."""
    atom = m.poly.atom
    try:
        return atom is not None and At({}, {atom: 1})(n.poly) == 1
    except (Unforeseen, ArithmeticError, ValueError):
        return False


def _cut(n: dims.Dim, m: dims.Dim) -> bool:
    """Return True if n is min(m, number): beside m, it broadcasts only where it equals m, or 1."""
    whole = Poly.of(m)
    rest = [each.constant for each in dims.smallest_of(n) if each != whole]
    return len(rest) == 1 and rest[0] is not None and rest[0] >= 1


def _floored(n: dims.Dim, m: dims.Dim) -> bool:
    """Return True if n is max(m, 0), which equals m, because m is the size of a tensor."""
    whole = Poly.of(m)
    rest = [each.constant for each in dims.largest_of(n) if each != whole]
    return len(rest) == 1 and rest[0] is not None and rest[0] <= 0


def axis_of(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def product(sizes) -> int:
    total = 1
    for n in sizes:
        total = total * n
    return total


_TO_THE_END = 2**31  # from here on a bound of a slice means "to the end"
PAST_EVERY_END = 2**62  # the bound that hx writes for it


def slice_size(n: int, start: int, end: int, step: int) -> int | None:
    """The number of elements that `start:end:step` takes of n; None where it cannot be known."""
    if all(type(v) is int for v in (n, start, end, step)):
        return len(
            range(n)[slice(start, end if abs(end) < _TO_THE_END or step > 0 else None, step)]
        )
    if type(step) is not int:
        return None
    fixed = type(start) is int and type(end) is int
    if step < 0 and fixed and start < 0 and end <= -_TO_THE_END:
        return integer_functions.ceil_div(
            n if start == -1 else dims.larger(n + (start + 1), 0), -step
        )
    if step < 1:
        return None
    if fixed:
        return _between_numbers(n, start, end, step)
    # Sizes that the model computed itself: clamped as torch does, negative ones from the end.
    return _between_sizes(n, _from_end(start, n), _from_end(end, n), step)


def _between_numbers(n: int, start: int, end: int, step: int) -> int:
    if start < 0 and end >= _TO_THE_END:  # the last few, when there are as many
        return integer_functions.ceil_div(dims.smaller(n, -start), step)
    first = start if start >= 0 else dims.larger(n + start, 0)
    last = n if end >= _TO_THE_END else n + end if end < 0 else dims.smaller(end, n)
    return integer_functions.ceil_div(
        dims.larger(last - first, 0) if first or end < 0 else last, step
    )


def _between_sizes(n: int, first: int, end: int, step: int) -> int:
    if type(end) is int and end >= _TO_THE_END:
        last = n
    else:
        last = end if same(end, n) else dims.smaller(end, n)
    if type(first) is int and first == 0:
        return integer_functions.ceil_div(last, step)
    first = dims.smaller(first, n) if not at_most(first, n) else first
    span = last - first
    return integer_functions.ceil_div(
        span if type(span) is int and span >= 0 else dims.larger(span, 0), step
    )


def _from_end(place: int, n: int) -> int:
    """A bound of a slice, counted from the start."""
    sign = sure_sign(Poly.of(place))
    if sign > 0:
        return place
    if not sign:  # from the front at some sizes, from the end at others
        negative = dims.smaller(dims.larger(-place, 0), 1)
        return dims.larger(place + n * negative, 0)
    moved = n + place
    return moved if type(moved) is dims.Dim and at_most(-place, n) else dims.larger(moved, 0)


def some(n: int) -> bool:
    """Return True if a number of elements is at least 1 whenever the inputs have elements."""
    return n > 0 if type(n) is int else sure_sign(Poly.of(n) - Poly.of(1)) > 0


def at_most(a: int, b: int) -> bool:
    """Return True if a is known never to be larger than b."""
    gap = b - a
    if type(gap) is int:
        return gap >= 0
    if never_negative(Poly.of(gap)):
        return True
    smallest = dims.smallest_of(a)
    return any(at_most(dims.dim(n), b) for n in smallest)

"""Lists that are as long as a size says: they remember which tensor holds the same numbers.

    range(n)       [c] * n       list(reversed(range(n)))       [0] * n + [1] * m

So does what `tolist()` gives of a tensor that is as long as values say.

Given to torch as a whole, as an index or to make a tensor, such a list is that tensor. Whoever
takes items out of it goes as often as the recording did, and that is told.
"""

from __future__ import annotations

import functools
import sys
from builtins import len, range  # their own: `world` hooks those of the model
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from . import dims
from .asked import Asked
from .floats import DimFloat
from .leaving import begins, leaving
from .polynomials import Atom, Poly
from .signs import never_negative

if TYPE_CHECKING:
    from ..graph.op import Op
    from ..tensors.values import Value

Formula = Callable[["Op"], "Value"]
_WIDE = (torch.bool, torch.int64, torch.float64)  # what Python's numbers are, narrowest first


class Whole(list):
    """A list with what it is in the graph, as long as nobody changes it."""

    __slots__ = ("_was", "each", "formula", "left", "length", "over", "taken", "times")

    def __init__(
        self,
        items: Any = (),
        formula: Formula | None = None,
        length: Any = None,
        left: tuple[str, str, tuple[Asked, ...]] | None = None,
        each: Callable[[int], Any] | None = None,
        over: tuple[str, str, tuple[Asked, ...]] | None = None,
        times: Any = None,
    ) -> None:
        super().__init__(items)
        self.times = times  # how often it repeats the things, no numbers, that it begins with
        self.over = over  # what is told in place of `left` where the model goes over it
        self.each = each  # what remembers where one of its items came from
        self.formula, self.length, self.left = formula, length, left
        # Where items were last taken out of it, and how many. PyTorch does that to every index, on
        # the way to its doors: these are not told of when the list turns out to be an index.
        self.taken: tuple[Any, int, int] = (None, 0, 0)
        self._was = tuple(list.__iter__(self))

    def same(self) -> bool:
        """Whether it holds what it was made of."""
        now = list.__iter__(self)
        return len(self._was) == list.__len__(self) and all(a is b for a, b in zip(self._was, now))

    def tell(self, over: bool = False) -> None:
        """It is used as a plain list."""
        told = self.over if over and self.over is not None else self.left
        if told is not None:
            kind, detail, asked = told
            leaving(kind, detail, *asked)

    def reduced(self, op: Op, reduce: str, plain: Callable) -> Any:
        """What a function such as `max` gives of all its numbers; None where that is not known."""
        if self.formula is None or not self.same() or _kind(self) not in _WIDE[1:]:
            return None
        if any(isinstance(each, list) for each in self._was):
            return None  # one list is compared with the other
        found = getattr(op, reduce)(self.formula(op), [0], keepdims=0)
        return number(found, plain([*map(dims.plain, list.__iter__(self))]))

    def copy(self) -> Any:
        if not self.same():
            self.tell()
            return [*list.__iter__(self)]
        return Whole(
            self._was, self.formula, self.length, self.left, self.each, self.over, self.times
        )

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()  # of numbers

    def flipped(self) -> Any:
        formula, backwards = self.formula, list.__getitem__(self, slice(None, None, -1))
        if formula is None or not self.same():
            self.tell()
            return backwards

        def turned(op: Op) -> Value:
            return op.Slice(formula(op), [-1], [-(2**63)], [0], [-1])

        each, last = self.each, len(backwards) - 1
        other = None if each is None else lambda place: each(last - place)
        return Whole(backwards, turned, self.length, self.left, other)

    def part(self, start: Any, stop: Any) -> Any:
        """self[start:stop], of which one is a size; None where the graph does not say what that is."""
        formula, length, item = self.formula, self.length, self.each
        ends = [0 if start is None else start, length if stop is None else stop]
        if formula is None or length is None or not self.same() or not all(map(_counts, ends)):
            return None
        begin, end = ends

        def cut(op: Op) -> Value:
            return op.Slice(formula(op), op.sizes([begin]), op.sizes([end]), [0])

        first, last = map(dims.plain, ends)
        each = None if item is None else lambda place: item(first + place)
        items = list.__getitem__(self, slice(first, last))
        many = _no_less(dims.smaller(end, length) - begin)
        told = f"{dims.spelled(many)} items of a list", (dims.asked(int, many),)
        return Whole(items, cut, many, ("index", *told), each, ("range", *told))

    def __reversed__(self) -> Any:
        self.tell()
        if self.each is None or not self.same():
            return list.__reversed__(self)
        return map(self.each, range(len(self._was) - 1, -1, -1))

    def __getitem__(self, index: Any) -> Any:
        if type(index) is slice and (index.start, index.stop, index.step) == (None, None, -1):
            return self.flipped()
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__", "").startswith("hx."):  # how x[i] is respelled
            frame = frame.f_back or frame
        place = frame.f_code, frame.f_lasti
        self.taken = (*place, self.taken[2] + 1 if self.taken[:2] == place else 1)
        self.tell()
        found = list.__getitem__(self, index)
        if self.each is None or not self.same():
            return found
        places = range(len(self._was))[index]
        return self.each(places) if isinstance(places, int) else [*map(self.each, places)]

    def __iter__(self) -> Any:
        name = sys._getframe(1).f_globals.get("__name__", "")
        return self.gone_over(not name.startswith(("hx.", "torch.")))

    def gone_over(self, over: bool = True) -> Iterator[Any]:
        """One item after the other; `over` if it is the model that goes over them."""
        self.tell(over)
        if self.each is None or not self.same():
            return list.__iter__(self)
        return map(self.each, range(len(self._was)))

    def __add__(self, other: Any) -> Any:
        return _joined(self, other)

    def __radd__(self, other: Any) -> Any:
        return _joined(other, self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.tell()
        return list, ([*list.__iter__(self)],)


class Given(list):
    """What a converter is given for a list: its items, and how many they are at every run."""

    __slots__ = ("length", "times")

    def __init__(self, items: Any, length: Any, times: Any = None) -> None:
        super().__init__(items)
        self.length, self.times = length, times


def _told(name: str) -> Callable:
    plain = getattr(list, name, None) or (lambda self: list.__len__(self) > 0)

    def method(self: Whole, *args: Any, **kwargs: Any) -> Any:
        self.tell()
        return plain(self, *args, **kwargs)

    return method


for _name in (
    "__contains__ __bool__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __mul__ "
    "__rmul__ __iadd__ __repr__ __str__ count index pop sort".split()
):
    setattr(Whole, _name, _told(_name))


def number(value: Value, plain: int | float) -> dims.Dim | DimFloat:
    """What the graph computes, as a number of Python's, which is `plain` here."""
    atom = Atom("item", (value,), plain)
    return DimFloat(atom) if isinstance(plain, float) else dims.Dim(Poly.of(atom))


def counted(*args: Any) -> Whole:
    """range(*args), with sizes among these."""
    start, stop, step = _ends(args)
    items = range(*map(dims.plain, (start, stop, step)))
    told = f"range({', '.join(format(dims.spelled(n)) for n in args)})"
    left = ("range", told, (dims.asked(range, *args),))
    if dims.is_dynamic(step):
        return Whole(items, left=left)  # it may go the other way

    length = length_of(*args)

    def formula(op: Op) -> Value:
        bounds = (start, start + length * step, step)
        return op.Range(*(op.cast(n, torch.int64) for n in bounds))

    # Where it rises from a size, so does each of them; what falls is told from where it ends.
    begin = start if step > 0 and dims.is_dynamic(start) else None
    return Whole(items, formula, length, left, functools.partial(_round, items, begin))


def numbered(items: Whole, op: Op) -> Whole:
    """A range whose numbers are asked for in the graph: what a model asks of one is asked there."""
    if items.formula is None:
        return items
    made = items.formula(op)

    def each(place: int) -> Any:
        begins()
        return number(op.Gather(made, place, axis=0), items._was[place])

    return Whole(items._was, items.formula, items.length, items.left, each)


def _round(items: range, begin: dims.Dim | None, place: int) -> int:
    """One of them; whoever goes over them begins another round."""
    begins()
    return items[place] if begin is None else begin + place * items.step


def length_of(*args: Any) -> Any:
    """That of range(*args)."""
    start, stop, step = _ends(args)
    ends = (stop - start, step) if step > 0 else (start - stop, -step)
    return _no_less(dims.ceil_div(*ends))


def _ends(args: tuple) -> tuple:
    return args if len(args) == 3 else (*args, 1) if len(args) == 2 else (0, *args, 1)


def repeated(items: list, times: dims.Dim) -> list:
    """items * times"""
    asked = dims.asked(int, times)
    left = ("repeat", "a sequence was repeated by a size", (asked,))
    plain = [*list.__iter__(items)] * dims.plain(times)
    if _kind(items) is None:
        over = ("range", f"over {dims.spelled(times)} of the same", (asked,))
        times = _no_less(times)
        alone = over if len(items) == 1 else None
        return Whole(plain, None, len(items) * times, left, None, alone, times)
    held, times = [*list.__iter__(items)], _no_less(times)

    def formula(op: Op) -> Value:
        row = _value(op, held)
        return op.Tile(row, op.sizes([times, *[1] * (row.rank - 1)]))

    length = len(held) * times
    return Whole(plain, formula, length, left)


def _joined(one: list, other: Any) -> Any:
    parts = [one, other]
    if not isinstance(one, list) or not isinstance(other, list):
        return NotImplemented
    plain = [*list.__iter__(one), *list.__iter__(other)]
    left = next(x.left for x in parts if type(x) is Whole)
    held = [_kept(x) for x in parts]
    if any(_kind(x) is None or not len(x) for x in held):
        for x in parts:
            if type(x) is Whole:
                x.tell()
        return plain

    def formula(op: Op) -> Value:
        return _side_by_side(op, [_value(op, x) for x in held])

    lengths = [x.length if type(x) is Whole else len(x) for x in held]
    return Whole(plain, formula, lengths[0] + lengths[1], left)


def _kept(x: list) -> list:
    """As it is now, whatever becomes of it."""
    return x.copy() if type(x) is Whole else [*x]


def _counts(n: Any) -> bool:
    """Whether it is a place counted from the first one, at every run."""
    return never_negative(n.poly) if type(n) is dims.Dim else type(n) is int and n >= 0


def _no_less(n: Any) -> Any:
    """A length: what is less than nothing is nothing."""
    known = never_negative(n.poly) if type(n) is dims.Dim else n >= 0
    return n if known else dims.larger(n, 0)


def _kind(x: Any) -> torch.dtype | None:
    """What numbers are in it, all the way down; None where something else is."""
    if type(x) is Whole:
        return None if x.formula is None or not x.same() else _kind([*list.__iter__(x)] or [0])
    if type(x) is list:
        kinds = [_kind(part) for part in x]
        return max(kinds, key=_WIDE.index) if kinds and None not in kinds else None
    if dims.is_dynamic(x):
        return torch.int64 if type(x) is dims.Dim else torch.float64
    return {bool: torch.bool, int: torch.int64, float: torch.float64}.get(type(x))


def _value(op: Op, x: Any) -> Value:
    if type(x) is Whole:
        assert x.formula is not None
        return x.formula(op)
    if type(x) is list:
        return _side_by_side(op, [op.Unsqueeze(_value(op, part), [0]) for part in x])
    kind = _kind(x)
    assert kind is not None
    return op.cast(x, kind) if dims.is_dynamic(x) else op.constant(x, kind)


def _side_by_side(op: Op, parts: list[Value]) -> Value:
    if len(parts) == 1:
        return parts[0]
    wide = max((part.dtype for part in parts), key=_WIDE.index)
    return op.Concat(*(op.cast(part, wide) for part in parts), axis=0)

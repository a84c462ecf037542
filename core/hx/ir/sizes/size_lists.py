"""Lists that are as long as a size: they remember which tensor holds the same numbers.

    range(n)       [c] * n       list(reversed(range(n)))       [0] * n + [1] * m

So do lists from `tolist()` of a tensor whose length depends on values.

Given to torch as a whole, as an index or to make a tensor, such a list is that tensor. Code that
takes items out of it runs as often as in the recording, and that is reported.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from . import dims, integer_functions
from .bounds import never_negative
from .comparisons import Asked
from .departures import begins, leaving, nodes
from .dims import DimFloat
from .size_polynomials import Atom, Poly

if TYPE_CHECKING:
    from ..node_writer import NodeWriter
    from ..value import Value

Formula = Callable[["NodeWriter"], "Value"]
# Modules that iterate on behalf of the model.
_CALLERS = ("hx.torchworld.spelling.handed_sizes", "hx.torchworld.spelling.rounds")
_WIDE = (torch.bool, torch.int64, torch.float64)  # dtypes of Python's numbers, narrowest first


class Whole(list):
    """A list with its form in the graph, valid as long as the list is not changed."""

    __slots__ = ("_was", "bounds", "each", "formula", "left", "length", "over", "taken", "times")

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
        self.bounds: tuple[Any, Any, Any] | None = None  # start, stop and step of a range
        self.times = times  # how often it repeats the things, no numbers, that it begins with
        self.over = over  # reported in place of `left` if the model iterates
        self.each = each  # makes an item that remembers where it came from
        self.formula, self.length, self.left = formula, length, left
        # The place where items were last taken out, and how many. PyTorch takes them from every
        # index on the way to its doors: these are not reported if the list becomes one.
        self.taken: tuple[Any, int, int] = (None, 0, 0)
        self._was = tuple(list.__iter__(self))

    def same(self) -> bool:
        """Return True if it still holds the items that it was made of."""
        now = list.__iter__(self)
        return len(self._was) == list.__len__(self) and all(a is b for a, b in zip(self._was, now))

    def tell(self, over: bool = False) -> None:
        """Report that this list is used as a plain list, so that its sizes leave the graph."""
        told = self.over if over and self.over is not None else self.left
        if told is not None:
            kind, detail, asked = told
            leaving(kind, detail, *asked)

    def reduced(self, op: NodeWriter, reduce: str, plain: Callable) -> Any:
        """Reduce all its numbers with a function such as `max`; None if the result is not known."""
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

        def turned(op: NodeWriter) -> Value:
            return op.Slice(formula(op), [-1], [-(2**63)], [0], [-1])

        each, last = self.each, len(backwards) - 1
        other = None if each is None else lambda place: each(last - place)
        return Whole(backwards, turned, self.length, self.left, other)

    def part(self, start: Any, stop: Any) -> Any:
        """self[start:stop], where one bound is a size; None if the graph cannot express it."""
        formula, length, item = self.formula, self.length, self.each
        ends = [0 if start is None else start, length if stop is None else stop]
        if formula is None or length is None or not self.same() or not all(map(_counts, ends)):
            return None
        begin, end = ends

        def cut(op: NodeWriter) -> Value:
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
        frame: Any = sys._getframe(1)
        while frame.f_globals.get("__name__") in _CALLERS:
            frame = frame.f_back
        name = frame.f_globals.get("__name__", "")
        return self.gone_over(not name.startswith(("hx.", "torch.")))

    def gone_over(self, over: bool = True) -> Iterator[Any]:
        """Yield the items one by one; `over` if it is the model that iterates."""
        self.tell(over)
        if self.each is None or not self.same():
            return list.__iter__(self)
        return Turns(self, self.each, known=not over)

    def __add__(self, other: Any) -> Any:
        return _joined(self, other)

    def __radd__(self, other: Any) -> Any:
        return _joined(other, self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.tell()
        return list, ([*list.__iter__(self)],)


class Turns:
    """The items of a list as long as a size, one by one.

    Code that takes all of them, and records nothing meanwhile, counts them: the numbers that it
    makes of them are plain. That is reported unless what takes them is `known` to keep sizes.
    """

    def __init__(self, items: Whole, each: Callable[[int], Any], known: bool) -> None:
        self.known = known
        self._each, self._length, self._many = each, items.length, list.__len__(items)
        self._taken = 0
        self._nodes = nodes()  # before the first item, and those that items are

    def __iter__(self) -> Turns:
        return self

    def __next__(self) -> Any:
        if self._taken >= self._many:
            self._end()
            raise StopIteration
        before = nodes()
        found = self._each(self._taken)
        self._nodes += nodes() - before
        self._taken += 1
        return found

    def __length_hint__(self) -> int:
        return self._many - self._taken

    def left(self) -> Any:
        """The number of items that are left, as a size; None if it is not known."""
        return None if self._length is None else self._length - self._taken

    def _end(self) -> None:
        if not self.known and dims.is_dynamic(self._length) and nodes() == self._nodes:
            told = f"{dims.spelled(self._length)} rounds are gone through by compiled code"
            leaving("int", told, *dims.goes_on(self._length))
        self.known = True


class Given(list):
    """A list as a converter gets it: its items, and its length in every run."""

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
    """Wrap a value that the graph computes as a Python number, which is `plain` for now."""
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

    def formula(op: NodeWriter) -> Value:
        bounds = (start, start + length * step, step)
        return op.Range(*(op.cast(n, torch.int64) for n in bounds))

    # In a rising range that starts at a size, each number follows from it; a falling one is plain.
    begin = start if step > 0 and dims.is_dynamic(start) else None
    found = Whole(items, formula, length, left, functools.partial(_round, items, begin))
    found.bounds = (start, stop, step)
    return found


def numbered(items: Whole, op: NodeWriter) -> Whole:
    """A range whose numbers are values of the graph: questions about one are asked there."""
    if items.formula is None:
        return items
    made = items.formula(op)

    def each(place: int) -> Any:
        begins()
        return number(op.Gather(made, place, axis=0), items._was[place])

    return Whole(items._was, items.formula, items.length, items.left, each)


def _round(items: range, begin: dims.Dim | None, place: int) -> int:
    """One number of it; iterating over them begins another round."""
    begins()
    return items[place] if begin is None else begin + place * items.step


def length_of(*args: Any) -> Any:
    """Return the length of range(*args)."""
    start, stop, step = _ends(args)
    ends = (stop - start, step) if step > 0 else (start - stop, -step)
    return _no_less(integer_functions.ceil_div(*ends))


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

    def formula(op: NodeWriter) -> Value:
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

    def formula(op: NodeWriter) -> Value:
        return _side_by_side(op, [_value(op, x) for x in held])

    lengths = [x.length if type(x) is Whole else len(x) for x in held]
    return Whole(plain, formula, lengths[0] + lengths[1], left)


def _kept(x: list) -> list:
    """Copy a list, so that later changes to it do not matter."""
    return x.copy() if type(x) is Whole else [*x]


def _counts(n: Any) -> bool:
    """Return True if an index counts from the start in every run."""
    return never_negative(n.poly) if type(n) is dims.Dim else type(n) is int and n >= 0


def _no_less(n: Any) -> Any:
    """A length: negative ones become 0."""
    known = never_negative(n.poly) if type(n) is dims.Dim else n >= 0
    return n if known else dims.larger(n, 0)


def _kind(x: Any) -> torch.dtype | None:
    """Return the dtype of the numbers in it, at any depth; None if it holds anything else."""
    if type(x) is Whole:
        return None if x.formula is None or not x.same() else _kind([*list.__iter__(x)] or [0])
    if type(x) is list:
        kinds = [_kind(part) for part in x]
        return max(kinds, key=_WIDE.index) if kinds and None not in kinds else None
    if dims.is_dynamic(x):
        return torch.int64 if type(x) is dims.Dim else torch.float64
    return {bool: torch.bool, int: torch.int64, float: torch.float64}.get(type(x))


def _value(op: NodeWriter, x: Any) -> Value:
    if type(x) is Whole:
        assert x.formula is not None
        return x.formula(op)
    if type(x) is list:
        return _side_by_side(op, [op.Unsqueeze(_value(op, part), [0]) for part in x])
    kind = _kind(x)
    assert kind is not None
    return op.cast(x, kind) if dims.is_dynamic(x) else op.constant(x, kind)


def _side_by_side(op: NodeWriter, parts: list[Value]) -> Value:
    if len(parts) == 1:
        return parts[0]
    wide = max((part.dtype for part in parts), key=_WIDE.index)
    return op.Concat(*(op.cast(part, wide) for part in parts), axis=0)

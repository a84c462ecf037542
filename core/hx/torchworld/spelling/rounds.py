"""Numbers that a model counts in a loop that lasts as long as a size says.

    k = 0
    for row in x:
        k += 1

No size is asked here: `k` is a plain number. In a respelled function, the loop notes what each name
is after each round. A number that surely rises by the same in each round follows from the number of
rounds, and is that size from then on. Any other number that changes has left the graph, which is
reported.
"""

from __future__ import annotations

import collections
import math
import types
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...ir import shapes
from ...ir.sizes import departures, dims, size_lists
from ...ir.sizes.comparisons import Asked
from ...ir.sizes.counted_whiles import counted
from ...ir.sizes.departures import leaving, listening
from ...ir.sizes.size_polynomials import Poly
from .iterations import follow, length_of, yields_each

_MISSING = object()
_FILLED = (list, dict, set, collections.deque, bytearray, array)
_PLAIN = (bool, int, float, str, bytes, type(None))


_OTHER = object()  # stands for what is not kept from round to round: a tensor, a new list


@dataclass(frozen=True)
class _Filled:
    """A container, and the number of its entries at one time."""

    container: Any
    many: int


@dataclass(frozen=True)
class _Held:
    """An object of the model, and its attributes that are plain numbers at one time."""

    owner: Any
    numbers: dict[str, Any]


class Rounds:
    """A record of what some names of a function are in each round of a loop, and behind it."""

    def __init__(self, steady: Sequence[int], *read: Callable[[], Any]) -> None:
        self._steady, self._read = steady, read  # places of names that each round changes alike
        self._seen: list[list[Any]] = []  # what each name was at the beginning of each round
        self._asked: list[Asked] = []  # the questions of `while`
        self._of_values = _questions()  # before the loop
        self.behind: dict[int, Any] = {}  # by the place of its name

    def over(self, items: Any) -> Any:
        """The items of the loop, which are watched if a size says how many there are."""
        self.behind = {}
        many = length_of(items) if listening() is not None else None
        self._steady = self._steady if yields_each(items) else ()
        return items if many is None else self._watched(items, many)

    def _watched(self, items: Iterable[Any], many: dims.Dim) -> Iterator[Any]:
        self._seen = []
        self._look()
        for each in follow(iter(items)):
            yield each
            self._look()
        self._end(many)

    def asks(self) -> int:
        """The number of questions before `while` asks its own."""
        return departures.answers()

    def goes_on(self, before: int, test: Any) -> Any:
        """The answer to `while`, whose questions may count through as many rounds as a size says."""
        if departures.answers() != before + 1 or type(test) is not bool or listening() is None:
            self._seen, self._asked = [], []
            return test
        self._asked.append(departures.last_asked())
        self._look()
        if not test:
            asked = counted(self._asked)
            if asked is not None:
                self._end(size_lists.length_of(*map(_size, asked.of)))
            self._seen, self._asked = [], []
        return test

    def _look(self) -> None:
        before = self._seen[-1] if self._seen else [_MISSING] * len(self._read)
        self._seen.append([_content(*each) for each in zip(self._read, before)])

    def _end(self, many: Any) -> None:
        self.behind = {}
        rounds = len(self._seen) - 1
        if self._of_values != _questions():
            return  # values decide what the rounds count
        if rounds > 0 and dims.is_dynamic(many) and rounds == dims.plain(many):
            self.behind = _behind(self._seen, many, self._steady)
        self._seen = []


def _questions() -> int:
    """The number of the model's questions about values so far."""
    listener = listening()
    return 0 if listener is None else listener.questions()


def counts(rounds: Rounds, place: int) -> bool:
    """Return True if a name is a number behind the loop that follows from its rounds."""
    return place in rounds.behind


def number(rounds: Rounds, place: int) -> Any:
    """The number that a name is behind the loop."""
    return rounds.behind[place]


def _size(x: Any) -> Any:
    return dims.dim(x) if isinstance(x, Poly) else x


def tell_of(items: Sequence[Any], many: dims.Dim) -> None:
    """Report numbers of rounds of which compiled code makes one: `sum(i % 2 for i in range(n))`."""
    if any(type(each) in (bool, int, float) and each for each in items):
        tell(many)


def collected(make: Callable[[Any], Any], items: Any, each: bool = True) -> Any:
    """[f(i) for i in items], tuple(items): as long as the items are, if it takes each of them"""
    listener = listening()
    many = length_of(items) if listener is not None else None
    before, yields = _questions(), yields_each(items)
    made = make(items if many is None or isinstance(items, dict) else follow(iter(items)))
    if many is None or listener is None or before != _questions() or not hasattr(made, "__len__"):
        return made
    if many.poly.named() or (made and not _holds_tensors(made)):  # else a merge finds its length
        each = each and yields and isinstance(made, (list, tuple)) and len(made) == dims.plain(many)
        listener.fill(made, many if each else None, many)
    return made


def _content(read: Callable[[], Any], before: Any) -> Any:
    try:
        found = read()
    except (NameError, AttributeError, LookupError):
        return _MISSING
    if type(found) in _FILLED:
        other = before is not _MISSING and getattr(before, "container", None) is not found
        return _OTHER if other else _Filled(found, len(found))
    if _is_number(found) or type(found) in _PLAIN:
        return found
    made = isinstance(type(found).__init__, types.FunctionType)
    held = getattr(found, "__dict__", None) if made else None
    if type(held) is not dict or isinstance(found, (torch.Tensor, type, types.ModuleType)):
        return _OTHER
    numbers = {name: x for name, x in held.items() if _is_number(x) or type(x) in _PLAIN}
    return _Held(found, numbers)


def _behind(seen: Sequence[list[Any]], many: dims.Dim, steady: Sequence[int]) -> dict[int, Any]:
    found = {}
    for place, (first, *each) in enumerate(zip(*seen)):
        if isinstance(each[-1], _Filled):
            _fill(first, each, many, place in steady)
        elif isinstance(each[-1], _Held):
            if any(isinstance(one, _Held) and one != each[-1] for one in each):
                tell(many)
        elif place in steady and (last := followed(first, each, many)) is not None:
            found[place] = last
        elif type(each[-1]) in _PLAIN and changes(each):
            tell(many)
    return found


def _fill(first: Any, each: Sequence[Any], many: dims.Dim, steady: bool) -> None:
    """Note the length of a container that rounds have filled, as many in each if it is steady."""
    container, listener = each[-1].container, listening()
    same = [one for one in (first, *each) if isinstance(one, _Filled)]
    if len(same) < len(each) or not changes([one.many for one in same]):
        return
    if _holds_tensors(container):
        return  # values may decide how many there are
    begin = first.many if isinstance(first, _Filled) else _MISSING
    if listener is not None:
        length = followed(begin, [one.many for one in each], many) if steady else None
        listener.fill(container, length, many)


def _holds_tensors(container: Any) -> bool:
    entries = container.values() if isinstance(container, dict) else container
    return any(isinstance(each, torch.Tensor) for each in entries)


def changes(each: Sequence[Any]) -> bool:
    """Return True if not all of these are the same."""
    known = [*map(dims.plain, each)]
    return any(type(x) is not type(known[0]) or x != known[0] for x in known)


def tell(many: Any) -> None:
    """Report a number or an answer that has changed in rounds, however many there are."""
    told = f"what {dims.spelled(many)} rounds have counted"
    leaving("int", told, *dims.goes_on(many))


def followed(first: Any, each: Sequence[Any], many: dims.Dim) -> Any:
    """The number behind the last round, if it rises by the same, or grows as much, in each."""
    if len(each) < 2 or not all(map(_is_number, each)):
        return None
    begins = _is_number(first)
    whole = [first, *each] if begins else [*each]
    for rising in (whole, each):
        step = _step(rising)
        if step is None or (not dims.is_dynamic(step) and not step):
            continue
        if rising is whole and begins:
            return many * step + first  # the size first: a float would not ask it
        last = (many - 1) * step + each[0]
        if not begins or any(map(dims.is_dynamic, (step, first, each[0]))):
            return last
        if step > 0 and each[0] - step <= first <= each[0]:  # also right if there is no round
            return dims.larger(last, first)
        return last
    return _grown(first, each, many) if begins else None


def _is_number(x: Any) -> bool:
    return type(x) in (int, float) or dims.is_dynamic(x)


def _step(numbers: Sequence[Any]) -> Any:
    """The difference between any two that follow each other; None if it is not always the same."""
    steps = [b - a for a, b in zip(numbers, numbers[1:])] or [0]
    first = steps[0]
    if any(map(dims.is_dynamic, steps)):
        whole = all(isinstance(step, int) for step in steps)
        return first if whole and all(shapes.same(first, step) for step in steps) else None
    if all(type(step) is int for step in steps):
        return first if all(step == first for step in steps) else None
    alike = all(math.isclose(step, first, rel_tol=1e-9, abs_tol=1e-12) for step in steps)
    return (numbers[-1] - numbers[0]) / len(steps) if alike else None


def _grown(first: Any, each: Sequence[Any], many: dims.Dim) -> Any:
    """A number that is multiplied by the same in each round, such as 0.9 ** n."""
    if type(first) is not float or not first or not all(type(x) is float and x for x in each):
        return None
    times = [b / a for a, b in zip([first, *each], each)]
    alike = all(math.isclose(by, times[0], rel_tol=1e-9) for by in times)
    return many.__rpow__(times[0]) * first if alike and times[0] > 0 and times[0] != 1 else None

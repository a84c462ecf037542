"""Two rows side by side: where they are the same, where they part, and where they go on alike."""

from __future__ import annotations

import copy
import itertools
from builtins import len  # its own: `world` hooks that of the model
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ...graph.graph import raw
from ...sizes import dims, shapes
from ...sizes.asked import Asked
from ...sizes.polynomials import Atom, Poly
from ...tensors.values import Absent, Body, Constant, Node, Value
from ..questions import Question
from .rows import Items, Join, Place, Row, Split, nodes_of, questions_of

TRIED = 200  # places where two recordings may go on alike, behind one question
MOST = 1000  # and behind all of them: one place is tried with each that comes behind it


class NotAlike(Exception):
    """Two recordings cannot be laid side by side in this way."""


@dataclass(frozen=True)
class _Around:
    """The place of a result around an `If`, where this many joins can be seen."""

    place: Place
    passed: int


Results = list[tuple[Value, Place | _Around]]


class _State:
    """What is known of two rows that were laid side by side so far."""

    def __init__(self) -> None:
        self.here: dict[int, Value] = {}  # by the id of a value of the other row, that of the first
        # By the id of its value, a join that the other row passed, and on which side.
        self.passed: dict[int, tuple[Join, bool]] = {}
        self.given: dict[tuple[int, bool], Value] = {}  # what such a side gives instead, by ids
        # By the id of a value that is inside of an `If` of before, what it is behind that.
        self.hidden: dict[int, Value | None] = {}
        self.made_in: dict[int, Split] = {}  # by id, the side that made a value
        self.splits: list[Split] = []
        self.since: dict[int, int] = {}  # by id, behind how many of them a value is made
        self.joins: dict[tuple[int, int], tuple[Split, Join]] = {}
        self.put: list[tuple[Place, Value]] = []  # what is to be read instead

    def copy(self) -> _State:
        made = copy.copy(self)
        for name, held in vars(self).items():
            setattr(made, name, held.copy())
        return made


class Joining:
    def __init__(self, first: Row, other: Row) -> None:
        self._first, self._other = first, other
        self._left = MOST

    def agrees(self) -> bool:
        """Whether the other row is a way through the first one as it is."""
        try:
            _, state = self._laid()
        except NotAlike:
            return False
        return not state.put and not state.splits

    def _laid(self) -> tuple[Items, _State]:
        state = _State()
        for name, value in self._other.inputs.items():
            state.here[id(value)] = self._first.inputs[name]
        mine = self._first.outputs
        results: Results = [(value, (mine, place)) for place, value in enumerate(mine)]
        items, _, state = self._follow(self._first.items, self._other.items, state, results)
        return items, state

    def row(self) -> Row:
        items, state = self._laid()
        for split, join in state.joins.values():
            split.joins.append(join)
        for (held, where), value in state.put:
            if isinstance(held, (list, dict)):
                held[where] = value
            else:
                setattr(held, where, value)
        return Row(items, self._first.outputs, self._first.inputs, self._first.answers)

    def _follow(
        self, xs: Items, ys: Items, state: _State, results: Results | None
    ) -> tuple[Items, int, _State]:
        """Lays all of `xs` beside the beginning of `ys`: what they are together, and how long that
        beginning is. Where there are `results`, they are what comes behind both."""
        made: Items = []
        j = 0
        for i, x in enumerate(xs):
            if j == len(ys):
                raise NotAlike
            y = ys[j]
            j += 1
            if isinstance(x, Node):
                self._node(state, x, y)
                made.append(x)
                continue
            question = x.question if isinstance(x, Split) else x
            self._question(state, question, y)
            if isinstance(x, Split):
                inner = None
                if results is not None and i == len(xs) - 1:
                    inner = [_inside(x, y.yes, *each, len(state.passed)) for each in results]
                side, taken, state = self._follow(x.sides[y.yes], ys[j:], state, inner)
                if inner is not None:
                    made.append(Split(question, {**x.sides, y.yes: side}, x.joins))
                    return made, len(ys), state
                state.hidden.update((id(v), None) for n in nodes_of(side) for v in n.outputs)
                for join in x.joins:
                    state.passed[id(join.value)] = join, y.yes
                    state.hidden[id(join.of[y.yes])] = join.value
                    state.since[id(join.value)] = len(state.splits)
                made.append(Split(question, {**x.sides, y.yes: side}, x.joins))
                j += taken
            elif x.yes is y.yes:
                made.append(x)
            else:
                rest, taken, state = self._part(x, xs[i + 1 :], y, ys[j:], state, results)
                return [*made, *rest], j + taken, state
        if results is not None:
            if j != len(ys) or len(results) != len(self._other.outputs):
                raise NotAlike
            for (value, place), other in zip(results, self._other.outputs):
                self._same(state, value, other, place, result=True)
        return made, j, state

    def _part(
        self, x: Question, xs: Items, y: Question, ys: Items, state: _State, results: Results | None
    ) -> tuple[Items, int, _State]:
        """The two ways from a question to where they go on alike, and all that follows."""
        ends = _sayable(state, xs, _behind_first), _sayable(state, ys, _of_other)
        for p, q in _meetings(xs, ys, ends, results is not None):
            if not self._left:
                break
            self._left -= 1
            trial = state.copy()
            split = Split(x, {x.yes: xs[:p], y.yes: ys[:q]})
            try:
                self._open(trial, split, x.yes)
                rest, taken, trial = self._follow(xs[p:], ys[q:], trial, results)
            except NotAlike:
                continue
            return [split, *rest], q + taken, trial
        raise NotAlike

    def _open(self, state: _State, split: Split, yes: bool) -> None:
        mine, theirs = split.sides[yes], split.sides[not yes]
        for side in (mine, theirs):
            for node in nodes_of(side):
                state.made_in.update((id(value), split) for value in node.outputs)
        for node in nodes_of(mine):
            for place, value in reads(node):
                if state.made_in.get(id(value), split) is not split:
                    state.put.append((place, _behind(state, value, yes_of_first=True)))
        for node in nodes_of(theirs):
            for place, value in reads(node):
                if state.made_in.get(id(value)) is not split and not isinstance(value, Constant):
                    state.put.append((place, _of_other(state, value)))
        for question in questions_of(theirs):
            if question.value is not None and id(question.value) in state.here:
                state.put.append(((question, "value"), state.here[id(question.value)]))
        state.splits.append(split)

    def _node(self, state: _State, x: Node, y: Any) -> None:
        if not isinstance(y, Node) or (x.op, x.domain) != (y.op, y.domain):
            raise NotAlike
        if len(x.inputs) != len(y.inputs) or len(x.outputs) != len(y.outputs):
            raise NotAlike
        for place, (a, b) in enumerate(zip(x.inputs, y.inputs)):
            self._same(state, a, b, (x.inputs, place))
        self._attributes(state, x.attributes, y.attributes)
        for a, b in zip(x.outputs, y.outputs):
            if a.dtype != b.dtype or _rank(a) != _rank(b):
                raise NotAlike
            state.here[id(b)] = a
            state.since[id(a)] = len(state.splits)

    def _attributes(self, state: _State, x: dict, y: dict) -> None:
        if x.keys() != y.keys():
            raise NotAlike
        for name, a in x.items():
            b = y[name]
            if type(a) is not type(b):
                raise NotAlike
            if isinstance(a, Body):
                self._body(state, a, b)
            elif isinstance(a, torch.Tensor):
                if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(raw(a), raw(b)):
                    raise NotAlike
            elif repr(a) != repr(b):
                raise NotAlike

    def _body(self, state: _State, x: Body, y: Body) -> None:
        if len(x.nodes) != len(y.nodes) or len(x.inputs) != len(y.inputs):
            raise NotAlike
        if len(x.outputs) != len(y.outputs):
            raise NotAlike
        state.here.update((id(b), a) for a, b in zip(x.inputs, y.inputs))
        for a, b in zip(x.nodes, y.nodes):
            self._node(state, a, b)
        for place, (one, other) in enumerate(zip(x.outputs, y.outputs)):
            self._same(state, one, other, (x.outputs, place))

    def _question(self, state: _State, x: Question, y: Any) -> None:
        if not isinstance(y, Question) or x.line != y.line:
            raise NotAlike
        if x.value is not None and y.value is not None:
            self._same(state, x.value, y.value, (x, "value"))
        elif x.asked is None or y.asked is None or _said(x.asked) != _said(y.asked, state.here):
            raise NotAlike

    def _same(
        self,
        state: _State,
        x: Value | None,
        y: Value | None,
        place: Place | _Around,
        result: bool = False,
        seen: int | None = None,
    ) -> Value | None:
        """What is to be read for two values: that they are one and the same, or what gives either.

        `seen` is how many of the joins on the way can be seen there, if not all of them.
        """
        if x is None or y is None:
            if x is not y:
                raise NotAlike
            return None
        there = state.here.get(id(y))
        if x is there or (isinstance(x, Constant) and _is_like(x, y)):
            return x
        if (id(x), id(y)) in state.joins:
            instead = state.joins[id(x), id(y)][1].value
        elif id(x) in state.passed:
            # What came from this side is the same; or that came from either side of one before.
            join, yes = state.passed[id(x)]
            side = state.given.get((id(join), yes), join.of[yes])
            order = list(state.passed).index(id(x))
            now = self._same(state, side, y, (join.of, yes), result, order)
            if now is not side and now is not None:
                state.given[id(join), yes] = now
            return x
        elif (before := self._either(state, x, there, place, seen)) is not None:
            instead = before
            place = place.place if isinstance(place, _Around) else place
        else:
            found = state.joins[id(x), id(y)] = self._join(state, x, y, result)
            instead = found[1].value
        if isinstance(place, _Around):
            raise NotAlike
        state.put.append((place, instead))
        return instead

    @staticmethod
    def _either(
        state: _State, x: Value, there: Value | None, place: Any, seen: int | None
    ) -> Value | None:
        """The last join that can be seen which is one value on the other row's way, and may be `x`."""
        passed = [join for join, _ in state.passed.values()]
        seen = place.passed if isinstance(place, _Around) else seen
        for join in reversed(passed if seen is None else passed[:seen]):
            if there is not None and _stands(state, join.value) is there:
                if _gives(state, join.value, x):
                    return join.value
        return None

    def _join(self, state: _State, x: Value, y: Value, result: bool) -> tuple[Split, Join]:
        makers = {id(s): s for v in (x, y) if (s := state.made_in.get(id(v))) is not None}
        found = list(makers.values()) or state.splits
        if len(found) != 1 or x.dtype != y.dtype or _rank(x) != _rank(y):
            raise NotAlike
        [split] = found
        sizes = list(zip(x.shape or (), y.shape or ()))
        alike = x.shape is not None and all(shapes.same(a, b) for a, b in sizes)
        if not alike and not result:
            raise NotAlike
        value = Value(x.dtype, x.shape if alike else None)
        if not alike and x.shape is not None:
            value.sized(
                a if shapes.same(a, b) else dims.Dim.leaf(value, axis, dims.plain(a))
                for axis, (a, b) in enumerate(sizes)
            )
        yes = split.question.yes
        inside = state.made_in.get(id(y)) is split or isinstance(y, Constant)
        other = y if inside else _of_other(state, y)
        for side in (x, other):
            if state.since.get(id(side), 0) > state.splits.index(split):
                raise NotAlike  # it is made behind that
        return split, Join(value, {yes: x, not yes: other})


def _inside(
    split: Split, yes: bool, value: Value, place: Place | _Around, passed: int
) -> tuple[Value, Place | _Around]:
    """A result, as the side of an `If` gives it that is the last of all."""
    for join in split.joins:
        if join.value is value:
            return join.of[yes], (join.of, yes)
    return value, place if isinstance(place, _Around) else _Around(place, passed)


def _stands(state: _State, value: Value) -> Value:
    """What a value is on the other row's way."""
    while id(value) in state.passed:
        join, yes = state.passed[id(value)]
        value = state.given.get((id(join), yes), join.of[yes])
    return value


def _gives(state: _State, value: Value, wanted: Value) -> bool:
    """Whether a value that came from either side may have come from another one."""
    if id(value) not in state.passed:
        return False
    join, _ = state.passed[id(value)]
    sides = [state.given.get((id(join), yes), side) for yes, side in join.of.items()]
    return any(side is wanted or _gives(state, side, wanted) for side in sides)


def _rank(value: Value) -> int:
    return -1 if value.shape is None else len(value.shape)


def _of_other(state: _State, value: Value) -> Value:
    """What a value of the other row is in the first one, where that can see it."""
    there = state.here.get(id(value))
    if there is None:
        return _behind(state, value, yes_of_first=False)
    there = state.hidden.get(id(there), there)
    if there is None:
        raise NotAlike
    return there


def _behind_first(state: _State, value: Value) -> None:
    if id(value) in state.made_in:
        _behind(state, value, yes_of_first=True)


def _behind(state: _State, value: Value, yes_of_first: bool) -> Value:
    """What a value that one side made is called behind the `If`."""
    for split, join in state.joins.values():
        yes = split.question.yes if yes_of_first else not split.question.yes
        if join.of[yes] is value:
            return join.value
    raise NotAlike


def reads(node: Node) -> Iterator[tuple[Place, Value]]:
    """The values that a node reads, each with its place; of its bodies, those from around them."""
    for i, read in enumerate(node.inputs):
        if read is not None:
            yield (node.inputs, i), read
    for body in node.attributes.values():
        if isinstance(body, Body):
            inside = {id(v) for n in body.nodes for v in n.outputs} | set(map(id, body.inputs))
            results = (((body.outputs, i), value) for i, value in enumerate(body.outputs))
            for place, value in (*itertools.chain(*map(reads, body.nodes)), *results):
                if id(value) not in inside:
                    yield place, value


def _is_like(x: Constant, y: Value) -> bool:
    if x is y:
        return True
    if not isinstance(y, Constant) or x.dtype != y.dtype or x.tensor.shape != y.tensor.shape:
        return False
    if isinstance(x, Absent) or isinstance(y, Absent):
        return bool(x.name) and x.name == y.name
    if x.tensor.data_ptr() == y.tensor.data_ptr() and x.tensor.stride() == y.tensor.stride():
        return True
    return torch.equal(raw(x.tensor), raw(y.tensor))


def _said(x: Any, here: dict[int, Value] | None = None) -> Any:
    """What was asked, in words that are the same in two rows."""
    if isinstance(x, Asked):
        return x.ask, tuple(_said(each, here) for each in x.of)
    if isinstance(x, Poly):
        terms = ((sorted(repr(_said(a, here)) for a in mono), c) for mono, c in x.terms.items())
        return sorted(map(repr, terms))
    if isinstance(x, Atom):
        return x.kind, tuple(_said(each, here) for each in x.args)
    if isinstance(x, Value):
        return id(x if here is None else here.get(id(x), x))
    return x


def _sayable(state: _State, items: Items, said: Callable[[_State, Value], Any]) -> int:
    """How many of these may be on one side: the next one reads what it cannot see from there."""
    own: set[int] = set()
    for i, item in enumerate(items):
        for node in nodes_of([item]):
            for _, value in reads(node):
                if id(value) not in own and not isinstance(value, Constant):
                    try:
                        said(state, value)
                    except NotAlike:
                        return i
            own.update(id(value) for value in node.outputs)
    return len(items)


def _meetings(xs: Items, ys: Items, ends: tuple[int, int], last: bool) -> list[tuple[int, int]]:
    """Where two ways may go on alike, the nearest first."""
    places: dict[Any, list[int]] = {}
    for q, y in enumerate(ys[: ends[1] + 1]):
        places.setdefault(_kind(y), []).append(q)
    found = [(p, q) for p, x in enumerate(xs[: ends[0] + 1]) for q in places.get(_kind(x), ())]
    found.sort(key=sum)
    tried = itertools.islice((at for at in found if _may_meet(xs, ys, *at)), TRIED)
    last = last and ends == (len(xs), len(ys))
    return [*tried, *([(len(xs), len(ys))] if last else [])]


def _may_meet(xs: Items, ys: Items, p: int, q: int) -> bool:
    """Whether what begins there looks alike up to the next question, as all of it has to be."""
    for x, y in zip(itertools.islice(xs, p, None), itertools.islice(ys, q, None)):
        if not isinstance(x, Node):
            return _kind(x) == _kind(y)
        if not isinstance(y, Node) or not _looks_like(x, y):
            return False
    return True


def _looks_like(x: Node, y: Node) -> bool:
    return (
        (x.op, x.domain, len(x.inputs)) == (y.op, y.domain, len(y.inputs))
        and x.attributes.keys() == y.attributes.keys()
        and [(v.dtype, _rank(v)) for v in x.outputs] == [(v.dtype, _rank(v)) for v in y.outputs]
    )


def _kind(item: Any) -> Any:
    if isinstance(item, Node):
        origin = item.origin
        line = None if origin is None else (origin.file, origin.line, origin.target)
        return item.op, item.domain, line
    return (item.question if isinstance(item, Split) else item).line


# The graph.

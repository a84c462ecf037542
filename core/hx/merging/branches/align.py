"""Alignment of two rows: where they agree, where they part, and where they meet again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...budget import BUDGET
from ...ir import shapes
from ...ir.node_reads import reads
from ...ir.sizes import dims
from ...ir.value import Body, Constant, Node, Value
from ...recording.reads.questions import Question
from ...recording.rounds.loop_lengths import same_constant
from ..same_nodes import paired_bodies
from .alignment_state import Around, Passed, Results, Seen, State, View
from .constant_nodes import computed
from .node_rows import (
    Answers,
    Items,
    Join,
    Place,
    Row,
    Split,
    made_in,
    nodes_of,
    questions_of,
    sides_along,
)
from .size_agreement import OfAValue, of_either, same_asked, values_asked


class NotAlike(Exception):
    """Raised if two recordings cannot be laid side by side in this way."""


@dataclass(eq=False)
class _End:
    """The end of the side of an `If` that the other row goes along."""

    split: Split
    yes: bool
    around: View

    def pass_by(self, state: State) -> None:
        within = state.view
        end = state.end(self.split, self.yes, self.around)
        for value in made_in(self.split.sides[self.yes]):
            state.hidden.setdefault(id(value), (end, None))
        for join in self.split.joins:
            state.passed[id(join.value)] = Passed(join, self.yes, end, within)
            state.hidden[id(join.of[self.yes])] = end, join.value
            state.since[id(join.value)] = end


class Joining:
    def __init__(self, first: Row, other: Row, ways: Iterable[Answers] = ()) -> None:
        """Take the two rows; `ways` are the answers of the recordings joined in the first."""
        self._first, self._other = first, other
        self._left = BUDGET.nodes.all_meetings
        found = (sides_along(first.items, way) for way in ways)
        self._ways = [sides for sides in found if sides is not None]

    def agrees(self) -> bool:
        """Return True if the other row is already a way through the first one."""
        try:
            _, state = self._laid()
        except NotAlike:
            return False
        return not state.put and not state.splits

    def _laid(self) -> tuple[Items, State]:
        state = State()
        for name, value in self._other.inputs.items():
            state.here[id(value)] = self._first.inputs[name]
        mine = self._first.outputs
        results: Results = [(value, (mine, place)) for place, value in enumerate(mine)]
        return self._follow(self._first.items, self._other.items, state, results)

    def row(self, differing: bool = False) -> Row:
        """Return both rows as one; if `differing`, refuse a new `If` without results."""
        items, state = self._laid()
        giving = [split for split, _ in state.joins.values()]
        if differing and any(split not in giving for split in state.splits):
            raise NotAlike
        for split, join in state.joins.values():
            split.joins.append(join)
        for (held, where), value in state.put:
            if isinstance(held, (list, dict)):
                held[where] = value
            elif isinstance(held, Value):
                held.sized(value)
            else:
                setattr(held, where, value)
        return replace(self._first, items=items)

    def _follow(self, xs: Items, ys: Items, state: State, results: Results) -> tuple[Items, State]:
        """Lay `xs` beside `ys`, then the results; return the joined items and the state."""
        made: Items = []
        j = 0
        for i, x in enumerate(xs):
            if isinstance(x, _End):
                x.pass_by(state)
                made.append(x)
                continue
            if isinstance(x, Node) and (constants := self._computed(state, x)) is not None:
                # Its inputs are constants on the other way: PyTorch may have computed it there.
                trial = state.copy()
                try:
                    if j == len(ys):
                        raise NotAlike
                    self._node(trial, x, ys[j])
                    state = trial
                    j += 1
                except NotAlike:
                    for value, constant in zip(x.outputs, constants):
                        state.constants[id(value)] = constant
                        state.since[id(value)] = state.ends
                made.append(x)
                continue
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
                rest, state = self._side(x, xs[i + 1 :], y, ys[j:], state, results)
                return [*made, *rest], state
            if x.yes is y.yes:
                made.append(x)
            else:
                rest, state = self._part(x, xs[i + 1 :], y, ys[j:], state, results)
                return [*made, *rest], state
        if j != len(ys) or len(results) != len(self._other.outputs):
            raise NotAlike
        for (value, place), other in zip(results, self._other.outputs):
            self._same(state, value, other, place, result=True)
        return made, state

    def _side(
        self, x: Split, xs: Items, y: Question, ys: Items, state: State, results: Results
    ) -> tuple[Items, State]:
        """Follow the side of an `If` that the other row goes along, and the items behind it."""
        end = _End(x, y.yes, state.view)
        through = end.around.through | {(id(x.question), y.yes)}
        state.view = View(end.around.splits, through)
        if not xs:  # nothing follows: the side lasts to the end of the other row
            inner = [_inside(x, y.yes, *each, end.around) for each in results]
            side, state = self._follow(x.sides[y.yes], ys, state, inner)
            rest: Items = []
        else:
            found, state = self._follow([*x.sides[y.yes], end, *xs], ys, state, results)
            at = found.index(end)
            side, rest = found[:at], found[at + 1 :]
        return [Split(x.question, {**x.sides, y.yes: side}, x.joins), *rest], state

    def _part(
        self, x: Question, xs: Items, y: Question, ys: Items, state: State, results: Results
    ) -> tuple[Items, State]:
        """Make an `If` of two answers up to where the rows meet again, and follow the rest."""
        for p, q in _meetings(xs, ys):
            if not self._left:
                break
            self._left -= 1
            trial = state.copy()
            split = Split(x, {x.yes: xs[:p], y.yes: ys[:q]})
            try:
                self._open(trial, split, x.yes)
                trial.end(split, y.yes, trial.view)
                rest, trial = self._follow(xs[p:], ys[q:], trial, results)
            except NotAlike:
                continue
            return [split, *rest], trial
        raise NotAlike

    def _open(self, state: State, split: Split, yes: bool) -> None:
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
                    state.put.append((place, _of_other(state, value, state.ends + 1)))
        for question in questions_of(theirs):
            if question.value is not None and id(question.value) in state.here:
                state.put.append(((question, "value"), state.here[id(question.value)]))
            for value in values_asked(question.asked) if question.asked is not None else ():
                if id(value) in state.here:
                    there = state.here[id(value)]
                    state.put.append(((OfAValue(question, value), "value"), there))
        state.splits.append(split)

    def _node(self, state: State, x: Node, y: Any) -> None:
        bodies = paired_bodies(x, y) if isinstance(y, Node) else None
        if bodies is None:
            raise NotAlike
        for place, (a, b) in enumerate(zip(x.inputs, y.inputs)):
            self._same(state, a, b, (x.inputs, place))
        for mine, theirs in bodies:
            self._body(state, mine, theirs)
        for a, b in zip(x.outputs, y.outputs):
            if a.dtype != b.dtype or _rank(a) != _rank(b):
                raise NotAlike
            state.here[id(b)] = a
            state.since[id(a)] = state.ends
            sizes = of_either(a, b, state.here)
            if sizes is not None:
                state.put.append(((a, "shape"), sizes))

    def _computed(self, state: State, x: Node) -> list[Constant] | None:
        """Return what a node gives if it is constant on the other row's way alone."""
        stand = [None if value is None else _stands(state, value) for value in x.inputs]
        found = [None if v is None else state.constants.get(id(v), v) for v in stand]
        read = [value for value in found if value is None or isinstance(value, Constant)]
        if len(read) < len(found) or all(a is b for a, b in zip(read, x.inputs)):
            return None
        return computed(x, read, self._first.opset)

    def _body(self, state: State, x: Body, y: Body) -> None:
        state.here.update((id(b), a) for a, b in zip(x.inputs, y.inputs))
        for a, b in zip(x.nodes, y.nodes):
            self._node(state, a, b)
        for place, (one, other) in enumerate(zip(x.outputs, y.outputs)):
            self._same(state, one, other, (x.outputs, place))

    def _question(self, state: State, x: Question, y: Any) -> None:
        if not isinstance(y, Question) or x.line != y.line:
            raise NotAlike
        if x.value is not None and y.value is not None:
            self._same(state, x.value, y.value, (x, "value"))
        elif x.asked is None or y.asked is None:
            raise NotAlike
        elif not same_asked(x.asked, y.asked, state.here):
            self._of_values(state, x, y)

    def _of_values(self, state: State, x: Question, y: Question) -> None:
        """Match questions about the size of two values: they then ask about either value."""
        assert x.asked is not None and y.asked is not None
        mine, theirs = values_asked(x.asked), values_asked(y.asked)
        if len(mine) != 1 or len(theirs) != 1:
            raise NotAlike
        if not same_asked(x.asked, y.asked, {**state.here, id(theirs[0]): mine[0]}):
            raise NotAlike
        self._same(state, mine[0], theirs[0], (OfAValue(x, mine[0]), "value"))

    def _same(
        self,
        state: State,
        x: Value | None,
        y: Value | None,
        place: Place | Around,
        result: bool = False,
        view: View | None = None,
    ) -> Value | None:
        """Return the value to read for `x` and `y`: `x` if they are the same, else a join."""
        if x is None or y is None:
            if x is not y:
                raise NotAlike
            return None
        there = state.here.get(id(y))
        if x is there or same_constant(x, y):
            return x
        if state.gives.get(id(x)) is y or same_constant(state.constants.get(id(x)), y):
            return x
        if isinstance(place, Around):
            view, place = place.view, place.place
            around = True
        else:
            around, view = False, view or state.view
        instead = self._known(state, x, y, view)
        if instead is None and self._parts_behind(state, x, y, view):
            instead = self._join(state, x, y, view, result)
        elif instead is None and id(x) in state.passed:
            # Compare what this side of the join gives, which may be a join itself.
            passed = state.passed[id(x)]
            side = state.given.get((id(passed.join), passed.yes), passed.join.of[passed.yes])
            within = View(passed.view.splits, passed.view.through | view.through)
            now = self._same(state, side, y, passed.place, result, within)
            if now is not side and now is not None:
                state.given[id(passed.join), passed.yes] = now
            return x
        if instead is None:
            instead = self._either(state, x, there, view)
        if instead is None:
            instead = self._join(state, x, y, view, result)
        if around:
            raise NotAlike
        state.put.append((place, instead))
        return instead

    @staticmethod
    def _known(state: State, x: Value, y: Value, view: View) -> Value | None:
        """Return the new join of these two values if it exists and is visible."""
        for seen in view.splits:
            found = state.joins.get((id(x), id(y), id(seen.split)))
            if found is not None:
                return found[1].value
        return None

    @staticmethod
    def _parts_behind(state: State, x: Value, y: Value, view: View) -> bool:
        """Return True if the values differ because the rows part behind the join that is `x`."""
        if id(x) not in state.passed:
            return False
        end = state.passed[id(x)].end
        new = [seen for seen in view.splits if seen.split in state.splits and seen.end > end]
        made_in = state.made_in.get(id(y)) or state.made_in.get(id(_stands(state, x)))
        if made_in is None:
            return bool(new) and len(new) == len(state.splits)
        return any(seen.split is made_in for seen in new)

    @staticmethod
    def _either(state: State, x: Value, there: Value | None, view: View) -> Value | None:
        """Return the last visible join that is `there` on the other way and may be `x`."""
        if there is None:
            return None
        for seen in reversed(view.splits):
            if seen.split in state.splits:
                continue
            for join in reversed(seen.split.joins):
                if _stands(state, join.value) is there and _gives(state, join.value, x):
                    return join.value
        return None

    def _join(self, state: State, x: Value, y: Value, view: View, result: bool) -> Value:
        if x.dtype != y.dtype or _rank(x) != _rank(y):
            raise NotAlike
        seen = self._parting(state, x, y, view)
        split = seen.split
        sizes = list(zip(x.shape or (), y.shape or ()))
        alike = x.shape is not None and all(shapes.same(a, b) for a, b in sizes)
        if x.shape is None and not result:
            raise NotAlike
        value = Value(x.dtype, x.shape if alike else None)
        if not alike and x.shape is not None:
            value.sized(
                a if shapes.same(a, b) else dims.Dim.leaf(value, axis, dims.plain(a))
                for axis, (a, b) in enumerate(sizes)
            )
        inside = state.made_in.get(id(y)) is split or isinstance(y, Constant)
        other = y if inside else _of_other(state, y, seen.end)
        for side in (x, other):
            if state.since.get(id(side), 0) >= seen.end:
                raise NotAlike  # it is made behind the end of that `If`
        join = Join(value, {seen.yes: other, not seen.yes: x})
        state.joins[id(x), id(y), id(split)] = split, join
        state.gives[id(value)] = y
        return value

    def _parting(self, state: State, x: Value, y: Value, view: View) -> Seen:
        """Return the `If` that makes two values differ: a new one, or one where no way of the first
        row to this place takes the side that the other row takes.
        """
        new = [seen for seen in view.splits if seen.split in state.splits]
        makers = {id(s) for v in (x, y) if (s := state.made_in.get(id(v))) is not None}
        if makers:
            new = [seen for seen in new if id(seen.split) in makers]
        elif not new:
            here = [way for way in self._ways if view.through <= way]
            for seen in reversed(view.splits):
                if not any((id(seen.split.question), seen.yes) in way for way in here):
                    return seen
        if len(new) != 1 or len(makers) > 1:
            raise NotAlike
        return new[0]


def _inside(
    split: Split, yes: bool, value: Value, place: Place | Around, view: View
) -> tuple[Value, Place | Around]:
    """Return a result and its place as the last `If` of a row gives it on one side."""
    for join in split.joins:
        if join.value is value:
            return join.of[yes], (join.of, yes)
    return value, place if isinstance(place, Around) else Around(place, view)


def _stands(state: State, value: Value) -> Value:
    """Return what a value is on the other row's way."""
    while id(value) in state.passed:
        passed = state.passed[id(value)]
        value = state.given.get((id(passed.join), passed.yes), passed.join.of[passed.yes])
    return value


def _gives(state: State, value: Value, wanted: Value) -> bool:
    """Return True if `value` is a join and one of its sides, at any depth, is `wanted`."""
    if id(value) not in state.passed:
        return False
    join = state.passed[id(value)].join
    sides = [state.given.get((id(join), yes), side) for yes, side in join.of.items()]
    return any(side is wanted or _gives(state, side, wanted) for side in sides)


def _rank(value: Value) -> int:
    return -1 if value.shape is None else len(value.shape)


def _of_other(state: State, value: Value, end: int) -> Value:
    """Return the first row's value for one of the other row, visible to an `If` with this end."""
    there = state.here.get(id(value))
    if there is None:
        return _behind(state, value, yes_of_first=False)
    while (hidden := state.hidden.get(id(there))) is not None and hidden[0] < end:
        if hidden[1] is None:
            raise NotAlike
        there = hidden[1]
    return there


def _behind(state: State, value: Value, yes_of_first: bool) -> Value:
    """Return the join that gives, behind an `If`, a value that one side made."""
    for split, join in state.joins.values():
        yes = split.question.yes if yes_of_first else not split.question.yes
        if join.of[yes] is value:
            return join.value
    raise NotAlike


def _meetings(xs: Items, ys: Items) -> list[tuple[int, int]]:
    """Return pairs of places where two rows may go on alike, the nearest first, and none behind the
    end of a side that both are in.
    """
    places: dict[Any, list[int]] = {}
    for q, y in enumerate(ys):
        places.setdefault(_kind(y), []).append(q)
    end = next((p for p, x in enumerate(xs) if isinstance(x, _End)), len(xs))
    found = [(p, q) for p in range(end) for q in places.get(_kind(xs[p]), ())]
    behind = next((x for x in xs[end:] if not isinstance(x, _End)), None)
    if behind is not None:
        found += [(end, q) for q in places.get(_kind(behind), ())]
    found.sort(key=sum)
    return [*found[: BUDGET.nodes.meetings], *([(end, len(ys))] if behind is None else [])]


def _kind(item: Any) -> Any:
    if isinstance(item, Node):
        origin = item.origin
        line = None if origin is None else (origin.file, origin.line, origin.target)
        return item.op, item.domain, line
    return (item.question if isinstance(item, Split) else item).line

"""Both ways of a branch: recordings of one model, which went different ways, become one graph.

A recording is a row of nodes, with the questions of the model between them (see `questions`). Two
of them are laid side by side. They are the same up to a question that had another answer in each:
there they part, until they go on alike. What lies between becomes the two sides of an `If`, and what
is read behind it, and came from either side, the results of that. What was asked in one recording
alone stays answered as it was there.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from builtins import len  # its own: `world` hooks that of the model
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import Unsupported
from ..graph.graph import raw
from ..graph.op import Op
from ..sizes import dims, shapes
from ..sizes.asked import Asked
from ..sizes.polynomials import Atom, Poly
from ..tensors.values import Absent, Body, Constant, Node, Origin, Value
from .capture import Capture, capture
from .questions import Question

FEW = 4  # questions
MOST = 32  # recordings that become one graph
TRIED = 200  # places where two recordings may go on alike


class NotAlike(Exception):
    """Two recordings cannot be laid side by side in this way."""


@dataclass(eq=False)
class Join:
    """A value that came from either side."""

    value: Value
    of: dict[bool, Value]


@dataclass(eq=False)
class Split:
    """A question that was answered both ways, and what follows from each answer."""

    question: Question
    sides: dict[bool, list[Any]]  # Nodes, Questions and Splits
    joins: list[Join] = field(default_factory=list)


Line = tuple[str, int]
Answers = tuple[tuple[Line, bool], ...]
Items = list[Any]  # Nodes, Questions, Splits
Place = tuple[Any, Any]  # a list or dict and what is in it, or an object and an attribute of it


@dataclass(frozen=True)
class _Around:
    """The place of a result around an `If`, where this many joins can be seen."""

    place: Place
    passed: int


Results = list[tuple[Value, Place | _Around]]


@dataclass
class Row:
    """One recording, or several that were joined."""

    items: Items
    outputs: list[Value]
    inputs: dict[str, Value]
    answers: Answers


def record(first: Capture) -> None:
    """Makes a recording one of all ways that the model goes on the other inputs, too.

    Each way through that graph has been recorded, and is the same there: where no input is known
    that leads along it, the model hears the answers that do, whatever is true.
    """
    every = _All(first)
    for tensors in first.prepared.also:
        every.record(tensors)
    every.join()
    while (answers := every.unheard()) is not None:
        every.hear(answers)
    every.write()


class _All:
    """Recordings of one model, and the row that they make."""

    def __init__(self, first: Capture) -> None:
        self._first = first
        self._captures = [first]
        self._heard = {_answers(first)}
        self._tried: set[Answers] = set()
        self._row = _row(first)
        self._as_recorded = [_row(first)]
        self._joined = [self._row.answers]
        self._waiting: list[Row] = []
        asked = first.recording.questions.each
        self._of_values = {question.line for question in asked if question.value is not None}

    def record(self, tensors: dict[str, torch.Tensor], answers: Sequence[bool] = ()) -> None:
        """Records the model on other inputs, or with the first of its questions answered so."""
        first = self._first
        again = dataclasses.replace(first.prepared, tensors=tensors, answers=tuple(answers))
        try:
            found = capture(again, first.registry, first.opset, first.wanted)
        except Exception:
            # The model's own, or that of a converter which this way alone would need: without it,
            # the proof fails there as it did before.
            return
        if found.recording.missing or _answers(found) in self._heard:
            return
        self._heard.add(_answers(found))
        self._captures.append(found)
        self._as_recorded.append(_row(found))
        self._waiting.append(_row(found))

    def join(self) -> None:
        """Those that part late come first: what they have in common is in one piece then.

        Of one that parts, and parts again, nobody can tell what comes of which answer: what is the
        same but for the first of them is recorded before it.
        """
        for _ in range(2):  # what did not fit may fit when others are there
            left = []
            while self._waiting:
                at = max(
                    range(len(self._waiting)), key=lambda i: self._nearest(self._waiting[i])[0]
                )
                other = self._waiting.pop(at)
                common, way = self._nearest(other)
                answers = (*other.answers[: common + 1], *way[common + 1 :])
                if answers not in self._heard and answers not in self._tried:
                    self._waiting.append(other)
                    self._tried.add(answers)
                    self.record(self._first.prepared.tensors, [yes for _, yes in answers])
                    self._waiting.insert(0, self._waiting.pop())
                    continue
                try:
                    self._row = _Joining(self._row, other).row()
                    self._joined.append(other.answers)
                except NotAlike:
                    left.append(other)
            self._waiting = left

    def _nearest(self, other: Row) -> tuple[int, Answers]:
        """How many answers it has in common with what it is to be joined with, at the most."""
        return max((_common(way, other.answers), way) for way in self._joined)

    def unheard(self) -> Answers | None:
        """The answers along a way of the graph that nobody has recorded; None if there is none.

        A line that goes both ways does so wherever it is asked. Where few questions are about what
        is in a tensor, so does each of these.
        """
        if len(self._captures) > MOST:
            return None
        both = self._both()
        if len(self._of_values) <= FEW:
            both |= self._of_values
        for way in _ways(self._row.items):
            for at, (line, yes) in enumerate(way):
                other = (*way[:at], (line, not yes))
                known = {heard[: at + 1] for heard in self._heard}
                if line in both and other not in known and other not in self._tried:
                    return other
            if way not in self._heard and way not in self._tried:
                return way
        return None

    def hear(self, answers: Answers) -> None:
        """Records a way, on inputs on which the model goes along it when it hears these answers."""
        self._tried.add(answers)
        sizes: set[Any] = set()
        for captured in list(self._captures):
            tensors = captured.prepared.tensors
            shapes_of = tuple(tuple(tensor.shape) for tensor in tensors.values())
            if shapes_of not in sizes:
                sizes.add(shapes_of)
                self.record(tensors, [yes for _, yes in answers])
        self.join()

    def write(self) -> None:
        """The graph of the first recording is that of all then."""
        first, (_, *others) = self._first, self._captures
        both = self._both()
        ways = set(_ways(self._row.items))
        left = any(question.line in both for question in _questions(self._row.items))
        if not both or self._waiting or not ways <= self._heard or left:
            raise _apart()
        if not all(_Joining(self._row, row).agrees() for row in self._as_recorded):
            raise _apart()
        _write(first, self._row)
        for other in others:
            for domain, version in other.recording.builder.domains.items():
                first.recording.builder.domains.setdefault(domain, version)
            for key, escape in other.recording.escapes.items():
                first.recording.escapes.setdefault(key, escape)
        for (_, file, line), escape in first.recording.escapes.items():
            escape.carried |= (file, line) in both
        lines = [f"{file}:{line}" for file, line in sorted(both)]
        more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
        first.notes.append(
            f"recorded {len(self._captures)} times: both ways of the branch at "
            f"{', '.join(lines[:3])}{more} are in the graph"
        )
        for other in others:
            other.recording.let_go()
        first.others = [each for each in others if not each.prepared.answers]

    def _both(self) -> set[Line]:
        """The lines that go both ways."""
        return {split.question.line for split in _splits(self._row.items)}


def _apart() -> Unsupported:
    return Unsupported("the ways that the model goes do not become one graph")


def _answers(captured: Capture) -> Answers:
    return tuple((q.line, q.yes) for q in captured.recording.questions.each)


def _ways(items: Items) -> list[Answers]:
    """The answers along each way through a row."""
    ways: list[Answers] = [()]
    for item in items:
        if isinstance(item, Question):
            ways = [(*way, (item.line, item.yes)) for way in ways]
        elif isinstance(item, Split):
            ways = [
                (*way, (item.question.line, yes), *rest)
                for way in ways
                for yes, side in item.sides.items()
                for rest in _ways(side)
            ]
            if len(ways) > MOST:
                raise _apart()
    return ways


def _row(captured: Capture) -> Row:
    recording = captured.recording
    outputs = [recording.as_output(value) for _, value in captured.outputs]
    # Of its own: rows are changed as they are joined.
    nodes = [_like(node) for node in recording.builder.nodes]
    items, at = list[Any](), 0
    for question in recording.questions.each:
        items += nodes[at : question.at]
        at = question.at
        items.append(dataclasses.replace(question))
    items += nodes[at:]
    return Row(items, outputs, dict(captured.inputs), _answers(captured))


def _like(node: Node) -> Node:
    return Node(node.op, node.domain, list(node.inputs), node.outputs, node.attributes, node.origin)


def _common(one: Answers, other: Answers) -> int:
    """How many answers they begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))


def _questions(items: Items) -> Iterator[Question]:
    """Those that were answered in one way."""
    for item in items:
        if isinstance(item, Question):
            yield item
        elif isinstance(item, Split):
            for side in item.sides.values():
                yield from _questions(side)


def _splits(items: Items) -> Iterator[Split]:
    for item in items:
        if isinstance(item, Split):
            yield item
            for side in item.sides.values():
                yield from _splits(side)


def _nodes(items: Items) -> Iterator[Node]:
    for item in items:
        if isinstance(item, Node):
            yield item
        elif isinstance(item, Split):
            for side in item.sides.values():
                yield from _nodes(side)


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


class _Joining:
    def __init__(self, first: Row, other: Row) -> None:
        self._first, self._other = first, other

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
                state.hidden.update((id(v), None) for n in _nodes(side) for v in n.outputs)
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
        for p, q in _meetings(xs, ys, results is not None):
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
            for node in _nodes(side):
                state.made_in.update((id(value), split) for value in node.outputs)
        for node in _nodes(mine):
            for place, value in _reads(node):
                if state.made_in.get(id(value), split) is not split:
                    state.put.append((place, _behind(state, value, yes_of_first=True)))
        for node in _nodes(theirs):
            for place, value in _reads(node):
                if state.made_in.get(id(value)) is not split and not isinstance(value, Constant):
                    state.put.append((place, _of_other(state, value)))
        for question in _questions(theirs):
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


def _behind(state: _State, value: Value, yes_of_first: bool) -> Value:
    """What a value that one side made is called behind the `If`."""
    for split, join in state.joins.values():
        yes = split.question.yes if yes_of_first else not split.question.yes
        if join.of[yes] is value:
            return join.value
    raise NotAlike


def _reads(node: Node) -> Iterator[tuple[Place, Value]]:
    """The values that a node reads, each with its place; of its bodies, those from around them."""
    for i, read in enumerate(node.inputs):
        if read is not None:
            yield (node.inputs, i), read
    for body in node.attributes.values():
        if isinstance(body, Body):
            inside = {id(v) for n in body.nodes for v in n.outputs} | set(map(id, body.inputs))
            results = (((body.outputs, i), value) for i, value in enumerate(body.outputs))
            for place, value in (*itertools.chain(*map(_reads, body.nodes)), *results):
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


def _meetings(xs: Items, ys: Items, last: bool) -> list[tuple[int, int]]:
    """Where two ways may go on alike, the nearest first."""
    places: dict[Any, list[int]] = {}
    for q, y in enumerate(ys):
        places.setdefault(_kind(y), []).append(q)
    found = [(p, q) for p, x in enumerate(xs) for q in places.get(_kind(x), ())]
    found.sort(key=sum)
    return [*found[:TRIED], *([(len(xs), len(ys))] if last else [])]


def _kind(item: Any) -> Any:
    if isinstance(item, Node):
        origin = item.origin
        line = None if origin is None else (origin.file, origin.line, origin.target)
        return item.op, item.domain, line
    return (item.question if isinstance(item, Split) else item).line


# The graph.


def _write(captured: Capture, row: Row) -> None:
    builder = captured.recording.builder
    builder.nodes = _written(builder, row.items)
    captured.outputs = [(name, value) for (name, _), value in zip(captured.outputs, row.outputs)]


def _written(builder: Any, items: Items) -> list[Node]:
    nodes: list[Node] = []
    for item in items:
        if isinstance(item, Node):
            nodes.append(item)
        elif isinstance(item, Split) and item.joins:
            sides = {
                yes: Body([], [join.of[yes] for join in item.joins], _written(builder, side))
                for yes, side in item.sides.items()
            }
            where = item.question.where
            builder.nodes, outer = nodes, builder.origin
            builder.origin = Origin("if", "hx", where.scope, "", where.file, where.line)
            kept = builder.sizes.scope(empty=True)
            try:
                test = item.question.computed(Op(builder))
                bodies = {"then_branch": sides[True], "else_branch": sides[False]}
                builder.emit("If", [test], bodies, len(item.joins))
            finally:
                builder.origin = outer
                builder.sizes.restore(kept)
            node = nodes[-1]
            node.outputs = [join.value for join in item.joins]
            for value in node.outputs:
                value.node = node
    return nodes

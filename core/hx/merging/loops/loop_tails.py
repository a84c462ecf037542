"""Comparison of what a model does behind its rounds with other numbers of rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ir.recipe import Until
from ...ir.sizes import dims
from ...ir.value import Constant, Node, Value
from ...recording.reads.questions import until_asked
from ...recording.rounds.loop_lengths import same_constant
from ...recording.trace import Trace
from .round_inputs import Made, require_same, slots
from .stacked_sources import RoundsDiffer, maps, moved_axes


@dataclass(frozen=True)
class Round:
    """An output of a node in a round, `back` rounds before the end: 1 is the last."""

    made: Made
    back: int


@dataclass(frozen=True)
class Listed:
    """A list of what each round made, without the first and the last few."""

    first: int
    left_out: int
    many: int


class Tail:
    """One recording, with the question between its rounds asked a given number of times."""

    def __init__(self, trace: Trace, until: Until) -> None:
        self.trace = trace
        self.nodes = nodes = trace.nodes
        asked = until_asked(trace.questions, until)
        places = [question.at for question in asked]
        if not asked or any(question.value is None for question in asked):
            raise RoundsDiffer
        self.asked = asked
        self.stopped = asked[-1].yes is not until.on
        self.rounds, self.start, self.end = len(asked) - 1, places[0], places[-1]
        self.period = places[1] - places[0] if self.rounds else 0
        if any(b - a != self.period for a, b in zip(places, places[1:])):
            raise RoundsDiffer
        self.inputs = {id(value): name for name, value in trace.inputs}
        self.outer: dict[int, tuple[int, int]] = {}
        self.made: dict[int, tuple[int, Made]] = {}
        self.behind: dict[int, tuple[Node, int]] = {}
        for at, node in enumerate(nodes):
            for place, value in enumerate(node.outputs):
                if at < self.start:
                    self.outer[id(value)] = at, place
                elif at < self.end:
                    turn, within = divmod(at - self.start, self.period)
                    self.made[id(value)] = turn, (within, place)
                else:
                    self.behind[id(value)] = node, place

    def back(self, value: Value) -> Round | None:
        found = self.made.get(id(value))
        return None if found is None else Round(found[1], self.rounds - found[0])

    def element(self, value: Value | None) -> tuple[Any, int] | None:
        """Return a round's output, with the axes moved since, and its round; None if it is none."""
        moved = []
        while value is not None and id(value) in self.behind:
            node = self.behind[id(value)][0]
            if not maps(node):
                return None
            moved.append((node.op, *(() if node.op == "Cast" else moved_axes(node))))
            value = node.inputs[0]
        if value is None or id(value) not in self.made:
            return None
        turn, made = self.made[id(value)]
        return (made, tuple(moved)), turn


class Beside:
    """Map from what the longer recording reads after its rounds to counterparts in the other one."""

    def __init__(self, long: Tail, other: Tail) -> None:
        self._long, self._other = long, other
        # Id of what the longer one reads behind its rounds -> that, and its counterpart.
        self.read: dict[int, tuple[Value, Value | Round]] = {}
        self.lists: dict[int, Listed] = {}  # id of a Concat -> the list that it joins
        # True if a value is empty with no rounds: then it needs no counterpart, because what all
        # rounds made is as empty. The proof checks that.
        self.empty = False
        self._seen: dict[int, Value | None] = {}
        pairs = zip(long.trace.outputs, other.trace.outputs)
        if len(long.trace.outputs) != len(other.trace.outputs):
            raise RoundsDiffer
        waiting = []
        for (name, value), (named, there) in pairs:
            if name != named:
                raise RoundsDiffer
            waiting.append((value, there))
        while waiting:
            waiting += self._pair(*waiting.pop())

    def _pair(self, value: Value | None, there: Value | None) -> list[tuple]:
        """Note the counterpart at one place, or return the places that it follows from."""
        if value is None or there is None:
            if value is not there:
                raise RoundsDiffer
            return []
        if not self._other.rounds and self._is_none_of(value, there):
            self.empty = True
            return []
        if id(value) in self._seen:
            known = self._seen[id(value)]
            if known is not there and not same_constant(known, there):
                raise RoundsDiffer
            return []
        self._seen[id(value)] = there
        behind, other = self._long.behind.get(id(value)), self._other.behind.get(id(there))
        places = self._pair_behind(behind, other, there)
        if places is None:
            self.read[id(value)] = value, self._other.back(there) or self._same(there)
        return places or []

    def _pair_behind(
        self, made: tuple[Node, int] | None, other: tuple[Node, int] | None, there: Value
    ) -> list[tuple] | None:
        """Return the places that outputs of nodes behind the rounds follow from; None if the longer
        recording has no such node, or only it.
        """
        if made is None:
            if other is not None:
                raise RoundsDiffer
            return None
        node, place = made
        like, place_there = other or (None, place)
        if node.op == "Concat":
            joined = like if like is not None and like.op == "Concat" else None
            found = self._listed(node, joined, there)
            if found is not None:
                return found
        if like is None:
            if self._long.stopped:
                raise RoundsDiffer
            return None
        require_same(node, like)
        if place != place_there:
            raise RoundsDiffer
        return list(zip(slots(node), slots(like)))

    def _is_none_of(self, value: Value, there: Value) -> bool:
        """Return True if `there` is empty on the one axis where `value` has some of each round."""
        if value.dtype != there.dtype or not value.shape or not there.shape:
            return False
        sizes = [(dims.plain(n), dims.plain(m)) for n, m in zip(value.shape, there.shape)]
        apart = [n for n, m in sizes if n != m]
        same_rank = len(value.shape) == len(there.shape)
        none = all(m == 0 for n, m in sizes if n != m)
        return same_rank and none and len(apart) == 1 and apart[0] % self._long.rounds == 0

    def _same(self, there: Value) -> Value:
        """Return the longer recording's value for one of the other recording."""
        place = self._other.outer.get(id(there))
        if place is not None:
            return self._long.nodes[place[0]].outputs[place[1]]
        if id(there) in self._other.inputs:
            name = self._other.inputs[id(there)]
            return next(v for n, v in self._long.trace.inputs if n == name)
        if isinstance(there, Constant):
            return there
        raise RoundsDiffer

    def _listed(self, node: Node, joined: Node | None, there: Value) -> list[tuple] | None:
        """Match a list of what rounds made with the other one; None if it is no such list."""
        elements = [self._long.element(value) for value in node.inputs]
        known = [at for at, each in enumerate(elements) if each is not None]
        if len(known) < 3:
            return None
        begin, end = known[0], known[-1] + 1
        what, first = elements[begin]  # type: ignore[misc]
        if elements[begin:end] != [(what, turn) for turn in range(first, first + end - begin)]:
            return None
        around = (node.inputs[:begin], node.inputs[end:])
        others = [there] if joined is None else joined.inputs
        if joined is not None and repr(joined.attributes) != repr(node.attributes):
            raise RoundsDiffer
        many = len(others) - len(around[0]) - len(around[1])
        if many < 0:
            raise RoundsDiffer
        middle = others[len(around[0]) : len(around[0]) + many]
        found = [self._other.element(value) for value in middle]
        if found != [(what, turn) for turn in range(first, first + many)]:
            raise RoundsDiffer
        self.lists[id(node)] = Listed(first, self._other.rounds - first - many, many)
        after = others[len(around[0]) + many :]
        return [*zip(around[0], others), *zip(around[1], after)]

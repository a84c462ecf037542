"""Inputs of the nodes of a repeat, by where they come from in every round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...budget import BUDGET
from ...ir import shapes
from ...ir.node_reads import reads
from ...ir.recipe import EndNumbers
from ...ir.sizes import dims
from ...ir.value import Absent, Body, Constant, Node, Value
from ...tensor_bytes import same_bits
from ..same_nodes import paired_bodies
from .constants_across_lengths import same
from .find_repeats import Repeat
from .number_curves import Curve, bent
from .number_cycles import Turns, turned
from .number_powers import Powers, multiplied
from .number_steps import Stairs, climbed
from .stacked_sources import RoundsDiffer, Source

# These broadcast: a scalar in the first round is like a tensor filled with it.
_BROADCAST = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Where", "Pow", "Or", "And"}
OFF_THE_LINE = 1e-9  # relative distance of a number from the line that counts rounds


Rule = Stairs | Powers | Turns | Curve
Made = tuple[int, int]  # which node of a round, and which of its outputs


@dataclass(frozen=True)
class Local:
    """An output of a node of the same round."""

    made: Made


@dataclass(frozen=True)
class Carried:
    """An output of the round before; in the first round, a value from outside.

    It may come from an earlier round: then it was carried as `behind` in the round before.
    """

    made: Made
    first: int  # id of the value from outside
    behind: Carried | None = None

    @property
    def back(self) -> int:
        return 1 if self.behind is None else 1 + self.behind.back


@dataclass(frozen=True, eq=False)
class Same:
    """A value from outside that is the same in each round."""

    value: Value


@dataclass(frozen=True, eq=False)
class Counting:
    """Numbers with the same step in each round, from the first or to the last; or with a rule."""

    value: Constant  # in the first round, or in the last
    step: torch.Tensor
    to_last: bool
    rule: Rule | None = None  # if the step is not always the same

    def counts_to(self, value: Value | None, turn: int) -> bool:
        """Return True if `value` is the number `turn` rounds behind the first."""
        if not isinstance(value, Constant) or value.dtype != self.value.dtype:
            return False
        if self.to_last or self.rule is not None:
            return False
        there = self.value.tensor.to(self.step.dtype) + turn * self.step
        return torch.equal(value.tensor, there.to(value.dtype))


@dataclass(frozen=True, eq=False)
class Element:
    """An element of a source: in each round the next one, or the one before."""

    source: Source
    first: int
    step: int


Read = Local | Carried | Same | Counting | Element | None


class Rounds:
    """The nodes of a repeat, and what they read."""

    def __init__(
        self,
        nodes: list[Node],
        repeat: Repeat,
        elements: dict[int, tuple[Source, int]],
        before: EndNumbers | None = None,
    ) -> None:
        self.repeat, period = repeat, repeat.period
        self._nodes, self._before = nodes, before
        self.each = [nodes[at : at + period] for at in range(repeat.start, repeat.end, period)]
        self._elements = elements
        self.made = {
            id(value): (turn, at, place)
            for turn, round_ in enumerate(self.each)
            for at, node in enumerate(round_)
            for place, value in enumerate(node.outputs)
        }
        self.begins: dict[Carried, Value] = {}
        for first, *others in zip(*self.each):
            for other in others:
                require_same(first, other)
        self.reads = [
            [
                self._read(list(values), at, slot)
                for slot, values in enumerate(zip(*map(slots, alike)))
            ]
            for at, alike in enumerate(zip(*self.each))
        ]

        varying = (
            each for held in self.reads for each in held if not isinstance(each, Local | Same)
        )
        if not any(each is not None for each in varying):
            raise RoundsDiffer  # mere repetition is no loop

    @property
    def body(self) -> list[Node]:
        return self.each[0]

    def needed(self, wanted: Iterable[Made]) -> set[int]:
        """Return the nodes of a round that these follow from, in this round and in earlier ones."""
        found: set[int] = set()
        waiting = [at for at, _ in wanted]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                read = (x for x in self.reads[at] if isinstance(x, Local | Carried))
                waiting += [x.made[0] for x in read]
        return found

    def carried(self, nodes: Iterable[int], last: Iterable[Made]) -> set[Carried]:
        """Return the values that these nodes carry, or that are read behind the last round."""
        ends = set(last)
        read = (each for at in nodes for each in self.reads[at] if isinstance(each, Carried))
        waiting = [*read, *(each for each in self.begins if each.made in ends)]
        found: set[Carried] = set()
        while waiting:
            each = waiting.pop()
            found.add(each)
            waiting += [each.behind] if each.behind is not None else []
        return found

    def all_of(self, made: Made) -> list[Value]:
        return [round_[made[0]].outputs[made[1]] for round_ in self.each]

    def last(self, made: Made) -> Value:
        return self.each[-1][made[0]].outputs[made[1]]

    def _read(self, values: list[Value | None], at: int, slot: int) -> Read:
        read = [value for value in values if value is not None]
        if len(read) < len(values):
            if read:
                raise RoundsDiffer
            return None
        made = [self.made.get(id(value)) for value in read]
        if any(where is not None for where in made):
            return self._read_of_rounds(read, made, self.body[at].op in _BROADCAST)
        first = read[0]
        if all(value is first for value in read):
            return Same(first)
        known = [self._elements[id(value)] for value in read if id(value) in self._elements]
        if len(known) == len(read):
            return _element(known)
        constants = [value for value in read if isinstance(value, Constant)]
        if len(constants) == len(read) and not any(isinstance(c, Absent) for c in constants):
            return _counting(constants, self._to_last(constants, at, slot))
        raise RoundsDiffer

    def _read_of_rounds(
        self, read: list[Value], made: list[tuple[int, int, int] | None], broadcasts: bool
    ) -> Local | Carried:
        """Return what is read of the same round, or of an equal number of rounds before."""
        if made[-1] is None:
            raise RoundsDiffer
        turn, *place = made[-1]
        output, back = (place[0], place[1]), len(made) - 1 - turn
        alike = all(each == (n, *output) for n, each in enumerate(made[back:]))
        outside = all(each is None for each in made[:back])
        if not alike or not outside or back > BUDGET.rounds.back:
            raise RoundsDiffer
        if not back:
            return Local(output)
        found = None
        for first in read[back - 1 :: -1]:
            found = self.carry(first, read[back], output, broadcasts, found)
        assert found is not None
        return found

    def _to_last(self, read: list[Constant], at: int, slot: int) -> bool | None:
        """Tell if another recording has the same last number.

        Return True if so, False if it has the same first number, and None otherwise.
        """
        repeat, found = self.repeat, None
        if self._before is not None and slot < len(self.body[at].inputs):
            where = repeat.start, repeat.period, repeat.end, at, slot
            found = self._before.ends(self._nodes, *where)
        if found is None or same(found[0], read[0].tensor):
            return None if found is None else False
        return True if same(found[1], read[-1].tensor) else None

    def carry(
        self, first: Value, later: Value, place: Made, broadcast: bool, behind: Carried | None
    ) -> Carried:
        if first.dtype != later.dtype or first.shape is None or later.shape is None:
            raise RoundsDiffer
        if len(first.shape) != len(later.shape) and not (broadcast and first.shape == ()):
            raise RoundsDiffer
        found = Carried(place, id(first), behind)
        self.begins[found] = first
        return found


def _element(known: Sequence[tuple[Source, int]]) -> Element:
    (source, first), (_, second) = known[:2]
    step = second - first
    if any(k != (source, first + turn * step) for turn, k in enumerate(known)) or abs(step) != 1:
        raise RoundsDiffer
    return Element(source, first, step)


def _counting(read: list[Constant], to_last: bool | None) -> Same | Counting:
    first, tensors = read[0], [value.tensor for value in read]
    if any(t.dtype != first.dtype or t.shape != tensors[0].shape for t in tensors):
        raise RoundsDiffer
    if all(same_bits(t, tensors[0]) for t in tensors):
        return Same(first)
    if first.dtype not in (torch.int64, torch.int32, torch.float32, torch.float64):
        raise RoundsDiffer
    wide = torch.int64 if not first.dtype.is_floating_point else torch.float64
    begin, *others = (t.detach().to(wide) for t in tensors)
    step = (others[-1] - begin) / len(others) if wide.is_floating_point else others[0] - begin
    scale = torch.stack([begin, *others]).abs().amax(0)
    if first.dtype == torch.float32:
        far = torch.finfo(torch.float32).eps * scale.clamp(1e-30)
    else:
        far = OFF_THE_LINE * scale.clamp(1)
    for turn, now in enumerate(others, 1):
        off = (now - (begin + turn * step)).abs()
        if not bool((off <= far).all() if wide.is_floating_point else (off == 0).all()):
            rule = None if to_last else _rule([begin, *others], first.dtype)
            if rule is None:
                raise RoundsDiffer
            return Counting(first, rule.step, False, rule)
    if to_last is None:  # falling numbers mostly count what is left
        to_last = bool((step <= 0).all())
    return Counting(read[-1] if to_last else first, step, to_last)


def _rule(rounds: list[torch.Tensor], dtype: torch.dtype) -> Rule | None:
    """Return the rule of numbers that are not on a line; None if there is none."""
    if rounds[0].numel() > BUDGET.elements.table:
        return None
    near = max(OFF_THE_LINE, torch.finfo(dtype).eps) if dtype.is_floating_point else 0.0
    return (
        climbed(rounds)
        or (multiplied(rounds, near) if near else None)
        or turned(rounds, near)
        or bent(rounds, near or OFF_THE_LINE)
    )


def slots(node: Node) -> list[Value | None]:
    """Return what a node reads, then what its bodies read from outside."""
    within = (value for (held, _), value in reads(node) if held is not node.inputs)
    return [*node.inputs, *within]


def require_same(first: Node, other: Node) -> None:
    bodies = paired_bodies(first, other)
    if bodies is None or len(slots(first)) != len(slots(other)):
        raise RoundsDiffer
    for body, other_body in bodies:
        _require_same_body(body, other_body)
    for x, y in zip(first.outputs, other.outputs):
        if x.dtype != y.dtype or x.shape is None or y.shape is None:
            raise RoundsDiffer
        if len(x.shape) != len(y.shape):
            raise RoundsDiffer


def _require_same_body(a: Body, b: Body) -> None:
    """Raise RoundsDiffer if two bodies differ in more than what they read from outside."""
    there = {id(x): y for x, y in zip(a.inputs, b.inputs)}
    for one, other in zip(a.nodes, b.nodes):
        require_same(one, other)
        there.update((id(x), y) for x, y in zip(one.outputs, other.outputs))
    own = set(map(id, there.values()))
    pairs = [pair for n, m in zip(a.nodes, b.nodes) for pair in zip(n.inputs, m.inputs)]
    for x, y in (*pairs, *zip(a.outputs, b.outputs)):
        if (x is None) != (y is None) or there.get(id(x), y) is not y:
            raise RoundsDiffer
        if id(x) not in there and id(y) in own:
            raise RoundsDiffer


def shared(made: Value, values: Sequence[Value]) -> None:
    """Give a value the sizes that all of these have, because it may be any of them."""
    made.sized(sizes_of(made, values))


def sizes_of(made: Value, values: Sequence[Value], first: int = 0) -> list[Any]:
    """Return the sizes that all values share, else sizes of `made`, whose axes begin at `first`."""
    known = values[0].shape or ()
    sizes = zip(*(value.shape or () for value in values))
    return [
        n
        if all(shapes.same(n, other) for other in each)
        else dims.Dim.leaf(made, first + axis, dims.plain(n))
        for axis, (n, each) in enumerate(zip(known, sizes))
    ]

"""One repeat: what each of its nodes reads, by where it comes from in every round."""

from __future__ import annotations

from builtins import len, max, range  # their own: `world` hooks those of the model
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...graph.graph import same_bits
from ...sizes import dims, shapes
from ...tensors.values import Absent, Body, Constant, Node, Value
from ..both.rows import reads
from .before import Before, same
from .curves import Curve, bent
from .powers import Powers, multiplied
from .repeats import Repeat
from .sources import Source, Unlike
from .stairs import Stairs, climbed
from .turns import Turns, turned

# A number beside the tensors that the other rounds have there is one of them all over.
_BROADCAST = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Where", "Pow", "Or", "And"}
FURTHEST = 4  # rounds back, from which a value is read
MANY = 1 << 16  # numbers of a constant: more are weights, and follow nothing that counts
FAR = 1e-9  # how far a number that counts rounds may be beside the line, for its size


Rule = Stairs | Powers | Turns | Curve
Made = tuple[int, int]  # which node of a round, and which of its outputs


@dataclass(frozen=True)
class Local:
    """What a node of the same round made."""

    made: Made


@dataclass(frozen=True)
class Carried:
    """What a node of the round before made; in the first one, what was there before.

    Or of a round before that: what was carried `behind` it in the round before.
    """

    made: Made
    first: int  # id of a value
    behind: Carried | None = None

    @property
    def back(self) -> int:
        return 1 if self.behind is None else 1 + self.behind.back


@dataclass(frozen=True, eq=False)
class Same:
    """The same in each round, and from outside."""

    value: Value


@dataclass(frozen=True, eq=False)
class Counting:
    """Numbers that rise or fall by the same step in each round, from the first or to the last; or by
    another rule."""

    value: Constant  # in the first, or in the last
    step: torch.Tensor
    to_last: bool
    rule: Rule | None = None  # where they do not in every round

    def counts_to(self, value: Value | None, turn: int) -> bool:
        """Whether that is the number of so many rounds behind the first."""
        if not isinstance(value, Constant) or value.dtype != self.value.dtype:
            return False
        if self.to_last or self.rule is not None:
            return False
        there = self.value.tensor.to(self.step.dtype) + turn * self.step
        return torch.equal(value.tensor, there.to(value.dtype))


@dataclass(frozen=True, eq=False)
class Element:
    """In each round the next one, or the one before."""

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
        before: Before | None = None,
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
        for alike in zip(*self.each):
            _require_alike(alike)
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
            raise Unlike  # the same again, and no round of anything

    @property
    def body(self) -> list[Node]:
        return self.each[0]

    def needed(self, wanted: Iterable[Made]) -> set[int]:
        """The nodes of a round that these follow from, in this one and in those before it."""
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
        """Those that these nodes read, or that are read behind the last round."""
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
                raise Unlike
            return None
        made = [self.made.get(id(value)) for value in read]
        where = made[-1]
        if where is not None:
            place, back = where[1:], len(made) - 1 - where[0]
            alike = all(m == (turn, *place) for turn, m in enumerate(made[back:]))
            if not alike or back > FURTHEST or any(m is not None for m in made[:back]):
                raise Unlike
            if not back:
                return Local(place)
            found = None
            for first in read[back - 1 :: -1]:
                broadcast = self.body[at].op in _BROADCAST
                found = self.carry(first, read[back], place, broadcast, found)
            return found
        if any(m is not None for m in made):
            raise Unlike
        first = read[0]
        if all(value is first for value in read):
            return Same(first)
        known = [self._elements[id(value)] for value in read if id(value) in self._elements]
        if len(known) == len(read):
            return _element(known)
        constants = [value for value in read if isinstance(value, Constant)]
        if len(constants) == len(read) and not any(isinstance(c, Absent) for c in constants):
            return _counting(constants, self._to_last(constants, at, slot))
        raise Unlike

    def _to_last(self, read: list[Constant], at: int, slot: int) -> bool | None:
        """Whether the last number is what another recording had there; None where nobody knows."""
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
            raise Unlike
        if len(first.shape) != len(later.shape) and not (broadcast and first.shape == ()):
            raise Unlike
        found = Carried(place, id(first), behind)
        self.begins[found] = first
        return found


def _element(known: Sequence[tuple[Source, int]]) -> Element:
    (source, first), (_, second) = known[:2]
    step = second - first
    if any(k != (source, first + turn * step) for turn, k in enumerate(known)) or abs(step) != 1:
        raise Unlike
    return Element(source, first, step)


def _counting(read: list[Constant], to_last: bool | None) -> Same | Counting:
    first, tensors = read[0], [value.tensor for value in read]
    if any(t.dtype != first.dtype or t.shape != tensors[0].shape for t in tensors):
        raise Unlike
    if all(same_bits(t, tensors[0]) for t in tensors):
        return Same(first)
    if first.dtype not in (torch.int64, torch.int32, torch.float32, torch.float64):
        raise Unlike
    wide = torch.int64 if not first.dtype.is_floating_point else torch.float64
    begin, *others = (t.detach().to(wide) for t in tensors)
    step = (others[-1] - begin) / len(others) if wide.is_floating_point else others[0] - begin
    scale = torch.stack([begin, *others]).abs().amax(0)
    if first.dtype == torch.float32:
        far = torch.finfo(torch.float32).eps * scale.clamp(1e-30)
    else:
        far = FAR * scale.clamp(1)
    for turn, now in enumerate(others, 1):
        off = (now - (begin + turn * step)).abs()
        if not bool((off <= far).all() if wide.is_floating_point else (off == 0).all()):
            rule = None if to_last else _rule([begin, *others], first.dtype)
            if rule is None:
                raise Unlike
            return Counting(first, rule.step, False, rule)
    if to_last is None:  # most numbers that fall count what is left
        to_last = bool((step <= 0).all())
    return Counting(read[-1] if to_last else first, step, to_last)


def _rule(rounds: list[torch.Tensor], dtype: torch.dtype) -> Rule | None:
    """What the numbers of these rounds follow, where that is no line."""
    if rounds[0].numel() > MANY:
        return None
    near = max(FAR, torch.finfo(dtype).eps) if dtype.is_floating_point else 0.0
    return (
        climbed(rounds)
        or (multiplied(rounds, near) if near else None)
        or turned(rounds, near)
        or bent(rounds, near or FAR)
    )


def slots(node: Node) -> list[Value | None]:
    """What a node reads, and what is read in its bodies that comes from around them."""
    within = (value for (held, _), value in reads(node) if held is not node.inputs)
    return [*node.inputs, *within]


def _require_alike(nodes: Sequence[Node]) -> None:
    first = nodes[0]
    for other in nodes[1:]:
        require_same(first, other)


def require_same(first: Node, other: Node) -> None:
    if (first.op, first.domain) != (other.op, other.domain):
        raise Unlike
    if len(slots(first)) != len(slots(other)) or len(first.outputs) != len(other.outputs):
        raise Unlike
    if first.attributes.keys() != other.attributes.keys():
        raise Unlike
    for name, a in first.attributes.items():
        b = other.attributes[name]
        if type(a) is not type(b):
            raise Unlike
        if isinstance(a, Body):
            _require_same_body(a, b)
        elif isinstance(a, torch.Tensor):
            if a.dtype != b.dtype or a.shape != b.shape or not same_bits(a, b):
                raise Unlike
        elif a is not b and repr(a) != repr(b):
            raise Unlike
    for x, y in zip(first.outputs, other.outputs):
        if x.dtype != y.dtype or x.shape is None or y.shape is None:
            raise Unlike
        if len(x.shape) != len(y.shape):
            raise Unlike


def _require_same_body(a: Body, b: Body) -> None:
    """What is read from around them may be another value in each."""
    if len(a.nodes) != len(b.nodes) or len(a.inputs) != len(b.inputs):
        raise Unlike
    there = {id(x): y for x, y in zip(a.inputs, b.inputs)}
    for one, other in zip(a.nodes, b.nodes):
        require_same(one, other)
        there.update((id(x), y) for x, y in zip(one.outputs, other.outputs))
    own = set(map(id, there.values()))
    pairs = [pair for n, m in zip(a.nodes, b.nodes) for pair in zip(n.inputs, m.inputs)]
    for x, y in (*pairs, *zip(a.outputs, b.outputs)):
        if (x is None) != (y is None) or there.get(id(x), y) is not y:
            raise Unlike
        if id(x) not in there and id(y) in own:
            raise Unlike


def shared(made: Value, values: Sequence[Value]) -> None:
    """Says of a value what is known of the sizes of all of these, which it may be any of."""
    made.sized(sizes_of(made, values))


def sizes_of(made: Value, values: Sequence[Value], first: int = 0) -> list[Any]:
    """The sizes that all of these have; where they differ, those of a value from an axis on."""
    known = values[0].shape or ()
    sizes = zip(*(value.shape or () for value in values))
    return [
        n
        if all(shapes.same(n, other) for other in each)
        else dims.Dim.leaf(made, first + axis, dims.plain(n))
        for axis, (n, each) in enumerate(zip(known, sizes))
    ]

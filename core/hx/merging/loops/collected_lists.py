"""Joined lists of what rounds made, with the entries that exist once for each round.

    for row in x:
        outs.append(h)             # several in each round
        outs.append(torch.tanh(row))
    for row in y:                  # or in several loops, one after another
        outs.append(row)
    torch.stack(outs)

`torch.stack` gives each entry a new axis, and joins them. Here, that is one node, which reads the
entries themselves. As separate nodes, the new axes of all entries would look like rounds, whatever
the list is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...budget import BUDGET
from ...graph.axes import moved
from ...graph.op import Op
from ...ir.node_reads import reads
from ...ir.shapes import PAST_EVERY_END
from ...ir.value import Body, Constant, Node, Value
from ...recording.rounds.loop_lengths import same_constant
from .stacked_sources import STACK, RoundsDiffer, Source, maps, moved_axes

DOMAIN = "hx.rolled"  # of nodes that are never in a file


@dataclass(frozen=True)
class Run:
    """One value of a source for each round, from `first` on, forward or backward."""

    source: Source
    first: int
    step: int

    def at(self, turn: int) -> tuple[Source, int]:
        return self.source, self.first + turn * self.step


@dataclass(frozen=True)
class Part:
    """Entries of `count` rounds, in order: in each round one of each run, or the same value."""

    each: tuple[Run | Value, ...]
    count: int

    @property
    def runs(self) -> list[Run]:
        return [each for each in self.each if isinstance(each, Run)]


def is_list(node: Node) -> bool:
    return node.op == "Concat" or node.op == STACK


def axis_of(node: Node) -> int:
    """Return the axis that a node joins along, counted from the front."""
    axis = node.attributes["axis"]
    return axis if axis >= 0 else axis + node.outputs[0].rank


def grouped(
    entries: Sequence[Value], elements: Mapping[int, tuple[Source, int]]
) -> list[Part | Value]:
    """Return the entries, those of many rounds grouped in parts."""
    found: list[Part | Value] = []
    at = 0
    while at < len(entries):
        part = _part(entries, elements, at)
        found.append(part or entries[at])
        at += part.count * len(part.each) if part else 1
    return found


def _part(
    entries: Sequence[Value], elements: Mapping[int, tuple[Source, int]], at: int
) -> Part | None:
    """Return the rounds that begin at an entry, with as few entries each as possible."""
    most = min(BUDGET.rounds.entries, (len(entries) - at) // BUDGET.rounds.alike)
    for many in range(1, most + 1):
        each = []
        for place in range(at, at + many):
            slot = _slot(entries[place], entries[place + many], elements)
            if slot is None:
                break
            each.append(slot)
        if len(each) < many:
            continue
        count = 2
        while at + (count + 1) * many <= len(entries) and all(
            _goes_on(slot, entries[at + count * many + place], count, elements)
            for place, slot in enumerate(each)
        ):
            count += 1
        part = Part(tuple(each), count)
        least = [_least(run.source) for run in part.runs]
        if count >= max(least, default=BUDGET.rounds.recorded_far):
            return part
    return None


def _least(source: Source) -> int:
    """Return the fewest rounds a Part may have if it uses this source: nearly all its values."""
    return max(BUDGET.rounds.alike, source.many - 2 * BUDGET.rounds.unlike)


def _slot(
    first: Value, second: Value, elements: Mapping[int, tuple[Source, int]]
) -> Run | Value | None:
    if _same(first, second):
        return first
    (source, k), (other, n) = (elements.get(id(value), (None, 0)) for value in (first, second))
    return (
        Run(source, k, n - k)
        if source is not None and other is source and abs(n - k) == 1
        else None
    )


def _goes_on(
    slot: Run | Value, value: Value, turn: int, elements: Mapping[int, tuple[Source, int]]
) -> bool:
    if isinstance(slot, Run):
        return elements.get(id(value)) == slot.at(turn)
    return _same(slot, value)


def _same(a: Value, b: Value) -> bool:
    return a is b or same_constant(a, b)


def in_places(groups: Iterable[Sequence[Node]]) -> tuple[list[Node], list[int]]:
    """Join the nodes that stand in the place of each node; return them, and where each group begins.

    The last place is the end.
    """
    now: list[Node] = []
    places = [0]
    for group in groups:
        now += group
        places.append(len(now))
    return now, places


def with_lists_out(nodes: list[Node]) -> tuple[list[Node], list[int]]:
    """Move lists that one side of an If joins in front of it; return the nodes and their places.

    So the list comes before the question whether there were any rounds.
    """
    return in_places([*_moved_out(node), node] for node in nodes)


def _moved_out(node: Node) -> Iterator[Node]:
    """Yield the nodes that join lists on a side of an If, and take them out of it."""
    for body in node.bodies if node.op == "If" else ():
        out = _joining(body)
        yield from [each for each in body.nodes if each in out]
        body.nodes[:] = [each for each in body.nodes if each not in out]


def _joining(body: Body) -> set[Node]:
    """Return the nodes that join many outer values, and those that move axes of these for it."""
    own = {id(value): node for node in body.nodes for value in node.outputs}
    found: set[Node] = set()
    for node in body.nodes:
        makers = [own.get(id(value)) for value in node.inputs]
        if node.op != "Concat" or len(makers) < BUDGET.rounds.alike:
            continue
        inner = {maker for maker in makers if maker is not None}
        if all(maps(maker) and id(maker.inputs[0]) not in own for maker in inner):
            found |= {node, *inner}
    return found


def with_stacks(op: Op, nodes: list[Node]) -> tuple[list[Node], list[int]]:
    """Replace each `torch.stack` of many by one node; return the nodes and their places."""
    readers: dict[int, int] = {}
    for node in nodes:
        for _, value in reads(node):
            readers[id(value)] = readers.get(id(value), 0) + 1
    now: list[Node] = []
    places = []
    for node in nodes:
        places.append(len(now))
        entries = _stacked(op, node, now, readers) if node.op == "Concat" else None
        if entries is None:
            now.append(node)
            continue
        made = sum(not value.is_constant for value in node.inputs if value is not None)
        del now[len(now) - made :]
        places[-made - 1 :] = [len(now)] * (made + 1)
        axis = {"axis": axis_of(node)}
        now.append(Node(STACK, DOMAIN, entries, node.outputs, axis, node.origin))
    return now, [*places, len(now)]


def _stacked(
    op: Op, node: Node, before: list[Node], readers: Mapping[int, int]
) -> list[Value | None] | None:
    """Return the entries of a Concat if each got the joined axis right before, for it alone."""
    axis = axis_of(node)
    entries: list[Value | None] = []
    at = len(before)
    if len(node.inputs) < BUDGET.rounds.alike:
        return None
    for value in reversed(cast(list[Value], node.inputs)):
        if value.is_constant:
            if value.shape is None or value.shape[axis] != 1:
                return None
            held = cast(Constant, value).tensor
            entries.append(op.constant(held.squeeze(axis)))
            continue
        at -= 1
        maker = before[at] if at >= 0 else None
        if maker is None or maker.op != "Unsqueeze" or maker.outputs[0] is not value:
            return None
        if readers[id(value)] > 1 or not maps(maker) or moved_axes(maker) != [axis]:
            return None
        entries.append(maker.inputs[0])
    return entries[::-1] if at < len(before) else None


def joined(op: Op, node: Node, entries: Sequence[Value]) -> Value:
    """Join these entries as the node does."""
    axis = axis_of(node)
    if node.op == STACK:
        entries = [op.Unsqueeze(value, [axis]) for value in entries]
    return op.Concat(*entries, axis=axis) if len(entries) > 1 else entries[0]


def together(
    op: Op, part: Part, axis: int, stacks: bool, often: Any, read: Callable[[Value], Value]
) -> Value:
    """Join what the rounds made for one part of a list, along an axis of it or, in a stack, a new axis.

    `often` is the number of rounds if the part has no runs; `read` returns what to read for a value
    that is the same in each round.
    """
    if not stacks and any(run.source.along == axis for run in part.runs):
        run = part.runs[0]
        if len(part.each) > 1 or run.step < 0:
            raise RoundsDiffer
        return run.source.joined(op, run.first, part.count)
    rows = {run: _rows(op, run, part.count) for run in part.runs}  # along a new first axis
    often = next(iter(rows.values())).size(0) if rows else often
    every, sizes = [], []
    for each in part.each:
        shape = (each.source if isinstance(each, Run) else each).shape or ()
        value = (
            rows[each]
            if isinstance(each, Run)
            else op.Expand(read(each), op.sizes([often, *shape]))
        )
        if stacks and len(part.each) == 1:
            return moved(op, value, len(shape) + 1, 0, axis)
        every.append(op.Unsqueeze(value, [axis + 1]) if stacks else value)
        sizes.append((*shape[:axis], 1, *shape[axis:]) if stacks else shape)
    row = op.Concat(*every, axis=axis + 1) if len(every) > 1 else every[0]
    turned, shape = moved(op, row, len(sizes[0]) + 1, 0, axis), sizes[0]
    if len(every) == 1 and shape[axis] == 1:
        return op.Squeeze(turned, [axis + 1])
    return op.Reshape(turned, op.sizes([*shape[:axis], -1, *shape[axis + 1 :]]))


def _rows(op: Op, run: Run, count: int) -> Value:
    """Return `count` values of a run, stacked along a new first axis."""
    source, first, step = run.source, run.first, run.step
    stacked, last = source.stacked(op), first + step * (count - 1)
    if step < 0:
        begin, end = first - source.many, last - source.many - 1 if last else -PAST_EVERY_END
        end = last - 1 if 0 < last <= BUDGET.rounds.unlike else end
        return op.Slice(stacked, [begin], [end], [0], [-1])
    if count < source.many:
        end = last + 1 - source.many
        return op.Slice(stacked, [first], [end or PAST_EVERY_END], [0])
    return stacked

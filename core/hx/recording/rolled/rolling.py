"""A recording with its repeats written as loops."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from builtins import len  # their own: `world` hooks those of the model
from collections import Counter
from typing import Any

import torch

from ...errors import Unsupported
from ...sizes import dims, shapes
from ...sizes.asked import Asked
from ...tensors.values import Body, Node, Origin, Value
from ..both.rows import reads
from ..capture import Capture
from .before import Before
from .body import body_of, counting
from .growing import with_growing
from .joined import with_rows
from .known import Known
from .later import Later
from .lengths import OFF, length_of, nodes_key
from .listed import with_lists_out, with_stacks
from .passing import Passing
from .ragged import Growing, along
from .repeats import Repeat, repeats, sizes_first
from .rounds import Carried, Counting, Element, Made, Rounds, Same, shared, sizes_of
from .sources import Mapped, Stacked, Unlike, maps
from .whiles import counted

TRIES = 32  # places at which the rounds of a repeat may begin


def record(captured: Capture) -> None:
    """Makes the graph of a recording one that goes round as often as sizes say."""
    recording = captured.recording
    lengths = recording.builder.lengths
    # As the graph has them: what is complex is made of what the rounds give.
    captured.outputs = [
        (name, recording.as_output(x) if isinstance(x, Value) else x)
        for name, x in captured.outputs
    ]
    rolling = Rolling(captured, lengths.known(), lengths.begins, captured.prepared.rolls)
    try:
        if not rolling.roll():
            raise Unlike
        while (rolling := Rolling(captured, rolling.known_now(), set())).roll():
            pass  # what goes round it
    except Unlike:
        raise Unsupported("what the model does in each round does not become one loop") from None


class Rolling(Passing):
    def __init__(
        self,
        captured: Capture,
        known: Known,
        begins: set[int],
        before: Before | None = None,
    ) -> None:
        super().__init__(captured, known)
        self._begins, self._before = begins, before
        self._loops: list[tuple[str, int]] = []
        self._readers: dict[int, list[tuple[int, int]]] = {}  # of a value by its id: where they are
        self._looped_to = 0  # where in the nodes the last loop ends
        self._asked: list[Made] = []  # what says whether it goes on
        self._ends: dict[Carried, Value] = {}  # what was carried, behind the last round

    def roll(self) -> bool:
        """Whether there is a loop now."""
        if not self._known:
            return False
        nodes = self._builder.nodes
        listed = functools.partial(with_rows, self._op), functools.partial(with_stacks, self._op)
        for arranged in (with_lists_out, with_growing, *listed, sizes_first):
            nodes, now = arranged(nodes)
            self._begins = {now[at] for at in self._begins if at < len(nodes)}
            self._known = self._known.moved(now.__getitem__)
        self._needed = needed_of(nodes, [value for _, value in self._captured.outputs])
        self._readers = readers_of(nodes, self._needed)
        self._made = {id(value): at for at, node in enumerate(nodes) for value in node.outputs}
        kept = self._builder.sizes.scope(empty=True)
        outer, self._builder.nodes = self._builder.origin, []
        try:
            at = 0

            def fits(repeat: Repeat) -> bool:
                try:
                    return bool(Rounds(nodes, repeat, self._elements).each)
                except Unlike:
                    return False

            found = repeats(nodes, self._known, self._begins, fits)
            found = [each for each in found if not _beside_loops(nodes[each.start : each.end])]
            later = Later(nodes, found, filter(self._is_cut, nodes), self._readers)
            self._later = later.splits
            for repeat in later.now:
                self._pass(nodes[at : repeat.start])
                at = repeat.start
                for some in itertools.islice(repeat.others(self._begins), TRIES):
                    try:
                        rounds = Rounds(nodes, some, self._elements, self._before)
                    except Unlike:
                        continue
                    self._pass(nodes[at : some.start])
                    self._places += [len(self._builder.nodes)] * (some.end - some.start)
                    self._written(rounds, nodes)
                    at = some.end
                    break
            self._pass(nodes[at:])
            outputs = [(name, self._read(value)) for name, value in self._captured.outputs]
        finally:
            self._builder.origin = outer
            self._builder.sizes.restore(kept)
        if len(later.now) < len(found) and not self._sizes:
            raise Unlike  # it is no loop after all
        self._captured.outputs = outputs
        self._tell()
        return bool(self._sizes)

    def known_now(self) -> Known:
        """What said how often the model goes round, by where that was asked among the nodes that
        there are now."""
        places = [*self._places, len(self._builder.nodes)]
        return self._known.moved(places.__getitem__)

    def _tell(self) -> None:
        where = ", ".join(dict.fromkeys(f"{file}:{line}" for file, line in self._loops if file))
        if self._loops:
            at = f" at {where}" if where else ""
            named = all(length.poly.named() for length in self._sizes if dims.is_dynamic(length))
            who = "sizes say" if named else "what is in tensors says"
            told = f"the rounds{at} are a loop in the graph: as many as {who}"
            self._captured.notes.append(told)
        for escape in self._captured.recording.escapes.values():
            if escape.kind in ("range", "rounds"):
                for asked in list(escape.asked):
                    if self._goes_round(asked):
                        del escape.asked[asked]  # any number of these rounds is right
                escape.carried = not escape.asked
            elif escape.kind == "branch" and (asked_all := counted(escape.asked)) is not None:
                if self._goes_round(asked_all):
                    escape.asked.clear()
                    escape.carried = True

    def _goes_round(self, asked: Asked) -> bool:
        size = length_of(asked)
        if not any(shapes.same(size, other) for other in self._sizes):
            return False
        # Of what has no name, any may be what it follows from.
        prepared = self._captured.prepared
        axes = [] if prepared.counting else prepared.dynamic.values()
        every = {word for words in axes for word in words.values()}
        self._captured.rounds |= asked.names() or every
        return True

    def _written(self, rounds: Rounds, nodes: list[Node]) -> None:
        """A Loop in place of the rounds; or nothing, where each only moves the axes of something."""
        first = rounds.reads[0][0] if rounds.reads[0] else None
        if len(rounds.body) == 1 and maps(rounds.body[0]) and isinstance(first, Element):
            made = [round_[0].outputs[0] for round_ in rounds.each]
            source = Mapped(first.source.many, made[0].shape or (), first.source, rounds.body[0])
            self._held += made
            for turn, value in enumerate(made):
                self._elements[id(value)] = source, first.first + turn * first.step
        else:
            self._looped(rounds, nodes)

    def _as_many_as_it_reads(self, rounds: Rounds) -> Repeat:
        """The repeat, as long as a list is that it goes over, where nothing else said how long that is
        since the list was made: another loop that went as often may have been the last to ask."""
        repeat = rounds.repeat
        lists = {
            read.source: [node.inputs[slot] for node in alike if slot < len(node.inputs)]
            for reads, alike in zip(rounds.reads, zip(*rounds.each))
            for slot, read in enumerate(reads)
            if isinstance(read, Element)
        }
        for source, values in lists.items():
            made = max((self._made.get(id(value), -1) for value in values), default=-1)
            made = max(made, self._looped_to)  # what was asked before a loop was asked for that
            fewer = source.many - repeat.times
            asked = self._known.asked(repeat.times + repeat.fewer, made, repeat.start)
            if source.length is not None and not asked and 0 <= fewer <= OFF:
                return dataclasses.replace(repeat, size=source.length, fewer=fewer)
        return repeat

    def _looped(self, rounds: Rounds, nodes: list[Node]) -> None:
        op, builder = self._op, self._builder
        repeat = rounds.repeat = self._as_many_as_it_reads(rounds)
        self._looped_to = repeat.end
        where = next((n.origin for n in rounds.body if n.origin and n.origin.file), None)
        origin = Origin("range", "hx", where.scope if where else "", "", where.file if where else "",
                        where.line if where else 0)  # fmt: skip
        self._loops.append((where.file, where.line) if where is not None else ("", 0))
        builder.origin = origin
        last, stacked = self._behind(rounds, nodes)
        needed = rounds.needed((*last, *stacked, *self._asked))
        begins, carried = {}, {}
        wanted = rounds.carried(needed, last)
        for each, value in rounds.begins.items():
            if each not in wanted:
                continue
            later, begin = rounds.all_of(each.made), self._read(value)
            if value.shape == () and later[0].shape:
                begin = op.Expand(begin, op.sizes(later[0].shape))
                value = later[0]
            begins[each] = begin
            carried[each] = builder.value(value.dtype, None)
            shared(carried[each], [value, *later])
        growing: dict[Made, Growing] = {}
        for place in stacked:
            axis = along(rounds.all_of(place), nodes[repeat.end :])
            if axis is not None:
                growing[place] = Growing(op, rounds.all_of(place), axis)
        stacked = [place for place in stacked if place not in growing]
        turn, on = builder.value(torch.int64, []), builder.value(torch.bool, [])
        for at in sorted(needed):
            held = rounds.reads[at]
            held[:] = [Same(self._read(x.value)) if isinstance(x, Same) else x for x in held]
        times, counted = self._begun(repeat)
        inner = [builder.value(value.dtype, []) for value in counted]
        going = counted[0] if counted else op.constant(True, torch.bool)
        outer, builder.nodes = builder.nodes, []
        try:
            made = body_of(op, rounds, needed, turn, carried, times)
            ends = self._gone_round(on, inner, made)
            ends += [
                op.Identity(carried[each.behind] if each.behind is not None else made[each.made])
                for each in carried
            ]
            ends += [each.more(made[place]) for place, each in growing.items()]
            ends += [op.Identity(made[place]) for place in stacked]
            ends += [each.length(made[place]) for place, each in growing.items()]
            inside = (each.inside for each in growing.values())
            body = Body([turn, on, *inner, *carried.values(), *inside], ends, builder.nodes)
        finally:
            builder.nodes = outer
        builder.origin = origin
        first = [*begins.values(), *(each.begin for each in growing.values())]
        given = [times, going, *counted, *first]
        results = builder.emit("Loop", given, {"body": body}, len(ends) - 1)
        length = self._length(repeat, results[: len(counted)])
        results = results[len(counted) :]
        for each, value in zip(carried, results):
            shared(value, [carried[each], rounds.last(each.made)])
            self._ends[each] = value
            instead = rounds.all_of(each.made)[-each.back]
            self._instead.setdefault(id(instead), value)
            self._held.append(instead)
        wholes, results = results[len(carried) : len(first)], results[len(first) :]
        for place, value in zip(stacked, results):
            each_made = rounds.all_of(place)
            shape = tuple(sizes_of(value, each_made, 1))
            value.sized((length, *shape))
            self._stacks(Stacked(len(each_made), shape, value, length), each_made)
        for grown, whole, lengths in zip(growing.values(), wholes, results[len(stacked) :]):
            self._stacks(grown.source(whole, length, lengths), grown.given)
        self._count_on(rounds, nodes, length)

    def _count_on(self, rounds: Rounds, nodes: list[Node], length: Any) -> None:
        """What counts the rounds goes on in those behind the last one, which are unlike the others."""
        period, end = rounds.repeat.period, rounds.repeat.end
        for at in range(min(OFF * period, len(nodes) - end)):
            node, alike = nodes[end + at], rounds.body[at % period]
            if nodes_key(node) != nodes_key(alike):
                return
            for slot, read in enumerate(rounds.reads[at % period][: len(node.inputs)]):
                value, turn = node.inputs[slot], at // period
                if isinstance(read, Counting) and read.counts_to(value, rounds.repeat.times + turn):
                    behind = self._op.cast(length + turn, torch.int64)
                    node.inputs[slot] = counting(self._op, read, behind, None)

    # How often it goes round, which loops of another kind know otherwise.

    def _begun(self, repeat: Repeat) -> tuple[Value | None, list[Value]]:
        """The most rounds that there may be, and what is counted beside them."""
        self._sizes.append(repeat.size)
        if repeat.fewer:
            self._require_some(repeat.length, 0)
        return self._op.cast(repeat.length, torch.int64), []

    def _gone_round(self, on: Value, counted: list[Value], made: dict[Made, Value]) -> list[Value]:
        """Whether it goes on, and what was counted, now."""
        return [self._op.Identity(on)]

    def _length(self, repeat: Repeat, counted: list[Value]) -> Any:
        return repeat.length

    def _behind(self, rounds: Rounds, nodes: list[Node]) -> tuple[list[Made], list[Made]]:
        """What is read behind it: of the last rounds, where it is carried on, and of any."""
        carried = Counter((each.made, each.back) for each in rounds.begins)
        found: tuple[dict[Made, None], dict[Made, None]] = ({}, {})
        results = [value for _, value in self._captured.outputs]
        end = rounds.repeat.end
        behind = [
            (at, value)
            for value in map(
                id, (value for round_ in rounds.each for n in round_ for value in n.outputs)
            )
            for at in self._readers.get(value, ())
            if at[0] >= end
        ]
        for value in (*(value for _, value in sorted(behind)), *map(id, results)):
            where = rounds.made.get(value)
            if where is not None:
                turn, *place = where
                made = place[0], place[1]
                back = len(rounds.each) - turn
                # Before the first round there is one value for it, or nobody knows which.
                last = carried[made, back] == 1 or (back == 1 and carried[made, back] > 0)
                found[not last][made] = None
        ends, stacked = found
        return list(ends), list(stacked)


def _beside_loops(nodes: list[Node]) -> bool:
    """Whether they are what several loops begin with, or are counted by: no rounds of anything."""
    return all(
        node.op != "Loop" and node.origin is not None and node.origin.target == "range"
        and node.origin.pack == "hx"
        for node in nodes
    )  # fmt: skip


def needed_of(nodes: list[Node], results: list[Value]) -> set[Node]:
    """Those that something follows from: what nobody reads may come from any round."""
    read = set(map(id, results))
    found = set()
    for node in reversed(nodes):
        if any(id(value) in read for value in node.outputs):
            found.add(node)
            read.update(id(value) for _, value in reads(node))
    return found


def readers_of(nodes: list[Node], needed: set[Node]) -> dict[int, list[tuple[int, int]]]:
    """Which nodes read a value, by its id, and as the how-manieth that they read."""
    found: dict[int, list[tuple[int, int]]] = {}
    for at, node in enumerate(nodes):
        if node in needed:
            for slot, (_, value) in enumerate(reads(node)):
                found.setdefault(id(value), []).append((at, slot))
    return found

"""Loops in place of the repeats of a recording."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from typing import Any

import torch

from ...budget import BUDGET
from ...errors import Unsupported
from ...findings import FOLLOWED, Finding
from ...graph import blocks
from ...graph.op import Op
from ...ir import shapes
from ...ir.node_reads import reads
from ...ir.recipe import EndNumbers
from ...ir.sizes import dims
from ...ir.sizes.comparisons import Asked
from ...ir.sizes.counted_whiles import counted
from ...ir.value import Node, Origin, Value
from ...recording.rounds.loop_lengths import nodes_key
from ...recording.rounds.round_counts import Known
from ...recording.rounds.round_marks import length_of
from ...recording.trace import Trace
from ..copied_trace import copied
from ..protocol import Unmerged
from .between_loops import NodesBetween
from .collected_lists import with_lists_out, with_stacks
from .find_repeats import Repeat, repeats, sizes_first
from .growing_lists import with_growing
from .lists_per_round import with_rows
from .loop_body import body_of, counting
from .outer_values import Later
from .ragged_rounds import Growing, along
from .round_inputs import Carried, Counting, Element, Made, Rounds, Same, shared, sizes_of
from .stacked_sources import Mapped, RoundsDiffer, Stacked, maps


def write_loops(trace: Trace) -> Trace | Unmerged:
    """Write the rounds of a recording, whose number follows from sizes, as Loops."""
    trace = copied(trace)
    loops, marks = trace.recipe.flow.loops, trace.graph.round_marks
    assert loops is not None and marks is not None
    writer = LoopWriter(trace, marks.known(trace.escapes), marks.begins, loops.before)
    try:
        if not writer.write_pass():
            raise RoundsDiffer
        while (writer := LoopWriter(trace, writer.known_now(), set())).write_pass():
            pass  # loops around these
    except Unsupported as problem:
        return Unmerged(problem)
    return trace


@dataclasses.dataclass
class States:
    """Outputs of rounds that a loop carries, joins to one growing value, or stacks."""

    begins: dict[Carried, Value]
    carried: dict[Carried, Value]  # inside a round
    growing: dict[Made, Growing] = dataclasses.field(default_factory=dict)
    stacked: list[Made] = dataclasses.field(default_factory=list)

    @property
    def first(self) -> list[Value]:
        return [*self.begins.values(), *(each.begin for each in self.growing.values())]

    @property
    def inside(self) -> list[Value]:
        return [*self.carried.values(), *(each.inside for each in self.growing.values())]

    def after(self, op: Op, made: dict[Made, Value]) -> list[Value]:
        """The states after a round that made these values, and what is stacked."""
        grown = [(each, made[place]) for place, each in self.growing.items()]
        return [
            *[
                op.Identity(self.carried[each.behind] if each.behind else made[each.made])
                for each in self.carried
            ],
            *[each.more(piece) for each, piece in grown],
            *[op.Identity(made[place]) for place in self.stacked],
            *[each.length(piece) for each, piece in grown],
        ]


class LoopWriter(NodesBetween):
    """Writes the loops of one pass over a recording, and the nodes between them."""

    def __init__(
        self,
        trace: Trace,
        known: Known,
        begins: set[int],
        before: EndNumbers | None = None,
    ) -> None:
        super().__init__(trace, known)
        self._begins, self._before = begins, before
        self._loops: list[tuple[str, int]] = []
        self._readers: dict[int, list[tuple[int, int]]] = {}  # id of a value -> places and slots
        self._looped_to = 0  # place where the last loop ends
        self._asked: list[Made] = []  # outputs that tell if it goes on
        self._ends: dict[Carried, Value] = {}  # carried values behind the last round

    def write_pass(self) -> bool:
        """Write the loops of one pass; return True if there are any."""
        if not self._known:
            return False
        nodes = self._builder.nodes
        listed = functools.partial(with_rows, self._op), functools.partial(with_stacks, self._op)
        for arranged in (with_lists_out, with_growing, *listed, sizes_first):
            nodes, now = arranged(nodes)
            self._begins = {now[at] for at in self._begins if at < len(nodes)}
            self._known = self._known.moved(now.__getitem__)
        self._needed = needed_of(nodes, [value for _, value in self._trace.outputs])
        self._readers = readers_of(nodes, self._needed)
        self._made = {id(value): at for at, node in enumerate(nodes) for value in node.outputs}
        self._builder.nodes = []
        with blocks.rewriting(self._builder):
            repeated = self._repeats(nodes)
            at = 0
            for repeat in repeated.now:
                self._keep(nodes[at : repeat.start])
                at = self._write_repeat(repeat, nodes)
            self._keep(nodes[at:])
            outputs = [(name, self._read(value)) for name, value in self._trace.outputs]
        if repeated.postponed and not self._sizes:
            raise RoundsDiffer  # it is no loop after all
        self._trace.graph.nodes, self._trace.outputs = self._builder.nodes, outputs
        self._tell()
        return bool(self._sizes)

    def _repeats(self, nodes: list[Node]) -> Later:
        """Return the repeats of this pass, without those that wait for inner loops."""

        def fits(repeat: Repeat) -> bool:
            try:
                return bool(Rounds(nodes, repeat, self._elements).each)
            except RoundsDiffer:
                return False

        found = repeats(nodes, self._known, self._begins, fits)
        # Rounds that nothing follows from are no evidence of what a loop has counted.
        found = [each for each in found if self._needed & {*nodes[each.start : each.end]}]
        found = [each for each in found if not _beside_loops(nodes[each.start : each.end])]
        later = Later(nodes, found, filter(self._is_cut, nodes), self._readers)
        self._later = later.splits
        return later

    def _write_repeat(self, repeat: Repeat, nodes: list[Node]) -> int:
        """Write a loop for a repeat; return the place where it ends, or its start if its rounds
        are unlike.
        """
        for some in itertools.islice(repeat.others(self._begins), BUDGET.rounds.starts):
            try:
                rounds = Rounds(nodes, some, self._elements, self._before)
            except RoundsDiffer:
                continue
            self._keep(nodes[repeat.start : some.start])
            self._places += [len(self._builder.nodes)] * (some.end - some.start)
            self._write_rounds(rounds, nodes)
            return some.end
        return repeat.start

    def known_now(self) -> Known:
        """Return the known numbers of rounds, each at its place among the present nodes."""
        places = [*self._places, len(self._builder.nodes)]
        return self._known.moved(places.__getitem__)

    def _tell(self) -> None:
        where = ", ".join(dict.fromkeys(f"{file}:{line}" for file, line in self._loops if file))
        if self._loops:
            at = f" at {where}" if where else ""
            named = all(length.poly.named() for length in self._sizes if dims.is_dynamic(length))
            who = "sizes say" if named else "what is in tensors says"
            told = f"the rounds{at} are a loop in the graph: as many as {who}"
            self._trace.findings.append(Finding(FOLLOWED, told))
        self._carry_lengths()

    def _carry_lengths(self) -> None:
        """Note that the graph has the loops whose numbers of rounds were asked for."""
        lengths = [each.poly for each in self._sizes if dims.is_dynamic(each)]
        self._trace.merged.loop_lengths.update(dict.fromkeys(p for p in lengths if p.named()))
        for escape in self._trace.escapes.values():
            if escape.kind in ("range", "rounds"):
                for asked in list(escape.asked):
                    if self._is_a_loop_of(asked):
                        del escape.asked[asked]  # any number of these rounds is right
                escape.carried = not escape.asked
            elif escape.kind == "branch" and (asked_all := counted(escape.asked)) is not None:
                if self._is_a_loop_of(asked_all):
                    escape.asked.clear()
                    escape.carried = True

    def _is_a_loop_of(self, asked: Asked) -> bool:
        size = length_of(asked)
        if not any(shapes.same(size, other) for other in self._sizes):
            return False
        # A size without a name may follow from any named one.
        recipe = self._trace.recipe
        counting = recipe.flow.loops is not None and recipe.flow.loops.counting
        axes = [] if counting else recipe.request.sizes.values()
        every = {word for words in axes for word in words.values()}
        self._trace.merged.loop_sizes |= asked.names() or every
        return True

    def _write_rounds(self, rounds: Rounds, nodes: list[Node]) -> None:
        """Write a Loop in place of the rounds; or none, if each only moves axes of an element."""
        first = rounds.reads[0][0] if rounds.reads[0] else None
        if len(rounds.body) == 1 and maps(rounds.body[0]) and isinstance(first, Element):
            made = [round_[0].outputs[0] for round_ in rounds.each]
            source = Mapped(first.source.many, made[0].shape or (), first.source, rounds.body[0])
            self._held += made
            for turn, value in enumerate(made):
                self._elements[id(value)] = source, first.first + turn * first.step
        else:
            self._write_loop(rounds, nodes)

    def _as_many_as_it_reads(self, rounds: Rounds) -> Repeat:
        """Return the repeat, as long as a list that it reads, if no number was asked since the list
        was made: another loop of as many rounds may have been the last to ask.
        """
        repeat = rounds.repeat
        lists = {
            read.source: [node.inputs[slot] for node in alike if slot < len(node.inputs)]
            for reads, alike in zip(rounds.reads, zip(*rounds.each))
            for slot, read in enumerate(reads)
            if isinstance(read, Element)
        }
        for source, values in lists.items():
            made = max((self._made.get(id(value), -1) for value in values), default=-1)
            made = max(made, self._looped_to)  # a question before a loop belongs to it
            fewer = source.many - repeat.times
            asked = self._known.asked(repeat.times + repeat.fewer, made, repeat.start)
            if source.length is not None and not asked and 0 <= fewer <= BUDGET.rounds.unlike:
                return dataclasses.replace(repeat, size=source.length, fewer=fewer)
        return repeat

    def _write_loop(self, rounds: Rounds, nodes: list[Node]) -> None:
        builder = self._builder
        repeat = rounds.repeat = self._as_many_as_it_reads(rounds)
        self._looped_to = repeat.end
        origin = builder.origin = self._origin_of(rounds)
        last, listed = self._read_behind(rounds, nodes)
        needed = rounds.needed((*last, *listed, *self._asked))
        states = States(*self._carried(rounds, needed, last))
        self._collect(rounds, listed, nodes[repeat.end :], states)
        turn, on = builder.value(torch.int64, []), builder.value(torch.bool, [])
        for at in sorted(needed):
            held = rounds.reads[at]
            held[:] = [Same(self._read(x.value)) if isinstance(x, Same) else x for x in held]
        times, counted = self._number_of_rounds(repeat)
        inner = [builder.value(value.dtype, []) for value in counted]
        going = counted[0] if counted else self._op.constant(True, torch.bool)
        with blocks.inner_nodes(builder, own_sizes=False) as inner_nodes:
            made = body_of(self._op, rounds, needed, turn, states.carried, times)
            ends = [*self._after_round(on, inner, made), *states.after(self._op, made)]
        body = blocks.block([turn, on, *inner, *states.inside], ends, inner_nodes)
        builder.origin = origin
        results = blocks.write_loop(builder, times, going, [*counted, *states.first], body)
        length = self._length(repeat, results[: len(counted)])
        self._replace_results(results[len(counted) :], rounds, states, length)
        self._continue_counters(rounds, nodes, length)

    def _origin_of(self, rounds: Rounds) -> Origin:
        """Return the origin of a loop, at the line of the first node that has one."""
        where = next((n.origin for n in rounds.body if n.origin and n.origin.file), None)
        if where is None:
            self._loops.append(("", 0))
            return Origin("range", "hx", "", "", "", 0)
        self._loops.append((where.file, where.line))
        return Origin("range", "hx", where.scope, "", where.file, where.line)

    def _carried(
        self, rounds: Rounds, needed: set[int], last: list[Made]
    ) -> tuple[dict[Carried, Value], dict[Carried, Value]]:
        """Return, for each value that is carried, the first one and the one in a round."""
        begins, carried = {}, {}
        wanted = rounds.carried(needed, last)
        for each, value in rounds.begins.items():
            if each not in wanted:
                continue
            later, begin = rounds.all_of(each.made), self._read(value)
            if value.shape == () and later[0].shape:
                begin = self._op.Expand(begin, self._op.sizes(later[0].shape))
                value = later[0]
            begins[each] = begin
            carried[each] = self._builder.value(value.dtype, None)
            shared(carried[each], [value, *later])
        return begins, carried

    def _collect(
        self, rounds: Rounds, listed: list[Made], behind: list[Node], states: States
    ) -> None:
        """Stack outputs of which later nodes read any round, or join those of varying length."""
        for place in listed:
            values = rounds.all_of(place)
            axis = along(values, behind)
            if axis is None:
                states.stacked.append(place)
            else:
                states.growing[place] = Growing(self._op, values, axis)

    def _replace_results(
        self, results: list[Value], rounds: Rounds, states: States, length: Any
    ) -> None:
        """Set what nodes behind the loop read in place of values of its rounds."""
        for each, value in zip(states.carried, results):
            shared(value, [states.carried[each], rounds.last(each.made)])
            self._ends[each] = value
            instead = rounds.all_of(each.made)[-each.back]
            self._instead.setdefault(id(instead), value)
            self._held.append(instead)
        results = results[len(states.carried) :]
        wholes, results = results[: len(states.growing)], results[len(states.growing) :]
        for place, value in zip(states.stacked, results):
            made = rounds.all_of(place)
            shape = tuple(sizes_of(value, made, 1))
            value.sized((length, *shape))
            self._note_elements(Stacked(len(made), shape, value, length), made)
        pieces = zip(states.growing.values(), wholes, results[len(states.stacked) :])
        for growing, whole, lengths in pieces:
            self._note_elements(growing.source(whole, length, lengths), growing.given)

    def _continue_counters(self, rounds: Rounds, nodes: list[Node], length: Any) -> None:
        """Continue the counters in nodes behind the last round that differ from the rounds."""
        period, end = rounds.repeat.period, rounds.repeat.end
        for at in range(min(BUDGET.rounds.unlike * period, len(nodes) - end)):
            node, alike = nodes[end + at], rounds.body[at % period]
            if nodes_key(node) != nodes_key(alike):
                return
            for slot, read in enumerate(rounds.reads[at % period][: len(node.inputs)]):
                value, turn = node.inputs[slot], at // period
                if isinstance(read, Counting) and read.counts_to(value, rounds.repeat.times + turn):
                    behind = self._op.cast(length + turn, torch.int64)
                    node.inputs[slot] = counting(self._op, read, behind, None)

    # The number of rounds; `UntilWriter` overrides these for a loop that data end.

    def _number_of_rounds(self, repeat: Repeat) -> tuple[Value | None, list[Value]]:
        """Return the largest number of rounds, and first values of what is counted beside them."""
        self._sizes.append(repeat.size)
        if repeat.fewer:
            self._require_some(repeat.length, 0)
        return self._op.cast(repeat.length, torch.int64), []

    def _after_round(self, on: Value, counted: list[Value], made: dict[Made, Value]) -> list[Value]:
        """Return the condition to go on, and what was counted, after a round."""
        return [self._op.Identity(on)]

    def _length(self, repeat: Repeat, counted: list[Value]) -> Any:
        return repeat.length

    def _read_behind(self, rounds: Rounds, nodes: list[Node]) -> tuple[list[Made], list[Made]]:
        """Return what is read behind the loop: outputs that are carried, and those of any round."""
        carried = Counter((each.made, each.back) for each in rounds.begins)
        found: tuple[dict[Made, None], dict[Made, None]] = ({}, {})
        results = [value for _, value in self._trace.outputs]
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
                # It can be carried if one value is known for it before the first round.
                last = carried[made, back] == 1 or (back == 1 and carried[made, back] > 0)
                found[not last][made] = None
        ends, stacked = found
        return list(ends), list(stacked)


def _beside_loops(nodes: list[Node]) -> bool:
    """Return True if `range` made all of these: nodes that start or count loops are no rounds."""
    return all(
        node.op != "Loop" and node.origin is not None and node.origin.target == "range"
        and node.origin.pack == "hx"
        for node in nodes
    )  # fmt: skip


def needed_of(nodes: list[Node], results: list[Value]) -> set[Node]:
    """Return the nodes that the results follow from; unread nodes may differ between rounds."""
    read = set(map(id, results))
    found = set()
    for node in reversed(nodes):
        if any(id(value) in read for value in node.outputs):
            found.add(node)
            read.update(id(value) for _, value in reads(node))
    return found


def readers_of(nodes: list[Node], needed: set[Node]) -> dict[int, list[tuple[int, int]]]:
    """Map the id of each value to the places of the nodes that read it, with their slots."""
    found: dict[int, list[tuple[int, int]]] = {}
    for at, node in enumerate(nodes):
        if node in needed:
            for slot, (_, value) in enumerate(reads(node)):
                found.setdefault(id(value), []).append((at, slot))
    return found

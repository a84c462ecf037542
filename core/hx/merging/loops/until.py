"""Loops that go on until a value in a tensor ends them: `while (x > 1).any()`, `if done: break`.

It is impossible to record every number of rounds. So the model hears many times that it is to go
on, whatever is true, and then that it is to stop. The nodes between two such questions are a round.
If the rounds are alike, they are written once, as a Loop that computes the question. Recordings
with no round, with one and with a few show what is read behind the loop.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from ...budget import BUDGET
from ...errors import Unsupported, Where
from ...findings import FOLLOWED, Finding
from ...graph import blocks
from ...graph.axes import moved
from ...ir import shape_rules, shapes
from ...ir.node_reads import reads
from ...ir.recipe import Until
from ...ir.sizes import dims
from ...ir.sizes.size_polynomials import Atom, Poly
from ...ir.value import Constant, Node, Value
from ...recording.rounds.loop_lengths import same_constant
from ...recording.rounds.round_counts import Known
from ...recording.rounds.round_marks import length_of, rounds_of
from ...recording.trace import Trace
from ..branches.joined_findings import asked_there
from ..copied_trace import copied
from ..protocol import Merge, NotRecorded, RecordingWanted, Unmerged
from .collected_lists import Part
from .find_repeats import Repeat
from .loop_tails import Beside, Listed, Round, Tail
from .round_inputs import Carried, Made, Rounds
from .stacked_sources import Mapped, RoundsDiffer, Source, maps, moved_axes
from .write_loops import LoopWriter, needed_of


def untils(trace: Trace) -> list[Until]:
    """Return the questions that each round may ask, those asked most often first.

    A question that was asked once may belong to a loop that ended at once.
    """
    asked: dict[tuple[str, int], list[bool]] = {}
    for question in trace.questions:
        if question.of_values:
            asked.setdefault(question.line, []).append(question.yes)
    found = []
    for line, answers in sorted(asked.items(), key=lambda each: -len(each[1])):
        on = answers[0] if len(answers) > 1 else not answers[0]
        if len(set(answers[:-1])) <= 1:
            breaks = [
                (other, said[0])
                for other, said in asked.items()
                if other != line and len(set(said[:-1])) == 1 and abs(len(said) - len(answers)) <= 1
            ]
            found.append(Until(line, on, truly=answers.count(on), breaks=tuple(breaks)))
    return found[: BUDGET.runs.loop_ends]


def merge(trace: Trace) -> Merge[Trace | Unmerged]:
    """Write the rounds of a recording, which went on for a few of them, as a Loop of any length."""
    until, trace = trace.recipe.flow.until, copied(trace)
    assert until is not None
    try:
        yield from _record_and_write(trace, until)
    except Unsupported as problem:
        return Unmerged(problem)
    return trace


def _record_and_write(trace: Trace, until: Until) -> Merge[None]:
    long = Tail(trace, until)
    if long.rounds < BUDGET.rounds.short:
        raise RoundsDiffer
    others = {}
    for times in (BUDGET.rounds.short, 1, 0):
        other = yield from _again(trace, dataclasses.replace(until, times=times))
        if other is not None and (not other.stopped or other.rounds != times):
            raise RoundsDiffer
        if other is not None:
            others[times] = other
        elif times:
            raise RoundsDiffer
    UntilWriter(long, others, until).write()


def _again(trace: Trace, until: Until) -> Merge[Tail | None]:
    """Record so many rounds; return None if the model fails.

    It may raise anything if it stops so soon, such as for a stack of nothing.
    """
    found = yield RecordingWanted(trace.recipe.with_flow(until=until))
    return None if isinstance(found, NotRecorded) else Tail(found, until)


class _FromFirst:
    """Constants that fall from their first number on: a last one is unknown here."""

    @staticmethod
    def ends(nodes: list[Node], start: int, period: int, end: int, at: int, slot: int) -> Any:
        first = nodes[start + at].inputs[slot]
        return (first.tensor, None) if isinstance(first, Constant) else None


class UntilWriter(LoopWriter):
    """The longest recording, with a Loop in place of its rounds."""

    def __init__(self, long: Tail, others: dict[int, Tail], until: Until) -> None:
        super().__init__(long.trace, Known(), set())
        self._long, self._until = long, until
        if any(other.start != long.start for other in others.values()):
            raise RoundsDiffer
        repeat = Repeat(long.start, long.period, long.rounds, None)
        self._rounds = Rounds(long.nodes, repeat, {}, _FromFirst())
        self._asked = [self._place_asked()]
        self._beside = {times: Beside(long, other) for times, other in others.items()}
        self._lists = self._require_lists()
        # Id of what is read behind the rounds -> what is carried for it, if the data stopped the
        # loop, and if the rounds came to an end by themselves.
        self._stopped: dict[int, Carried] = {}
        self._ended: dict[int, Carried] = {}
        self._counts: dict[int, tuple[torch.Tensor, torch.Tensor, int]] = {}
        for value, there in self._beside[BUDGET.rounds.short].read.values():
            if isinstance(there, Round):
                self._stopped_at(value, there)
            else:
                self._same_or_counted(value)
        self._mapped: dict[Any, Source] = {}
        self._anew: set[int] = set()  # ids of values that follow from the rounds

    # What is read behind the rounds.

    def _place_asked(self) -> Made:
        places = [self._long.made.get(id(question.value)) for question in self._long.asked[1:]]
        found = {place and place[1] for place in places}
        if any(place is None or place[0] != turn for turn, place in enumerate(places)):
            raise RoundsDiffer
        if len(found) > 1:
            raise RoundsDiffer
        return found.pop()  # type: ignore[return-value]

    def _require_lists(self) -> dict[int, Listed]:
        stop = self._beside[BUDGET.rounds.short].lists
        for times, beside in self._beside.items():
            for key, known in stop.items():
                found = beside.lists.get(key)
                if found is None and beside.empty:
                    continue
                many = max(times - known.first - known.left_out, 0)
                if found is None or found.first != known.first or found.many != many:
                    raise RoundsDiffer
        return stop

    def _reading(self, times: int, value: Value) -> Value | Round | None:
        beside = self._beside.get(times)
        if beside is None:
            return None
        if id(value) not in beside.read:
            if beside.empty:
                return None
            raise RoundsDiffer
        return beside.read[id(value)][1]

    def _stopped_at(self, value: Value, there: Round) -> None:
        """Carry an output of a round; it begins with what recordings of fewer rounds read there."""
        if there.back > 2:
            raise RoundsDiffer
        begins: list[Value] = []
        for times in range(there.back):
            begin = self._reading(times, value)
            if isinstance(begin, Round):
                raise RoundsDiffer
            begins.append(self._any_begin(there.made) if begin is None else begin)
        if there.back == 1 and self._reading(1, value) != there:
            raise RoundsDiffer
        later = self._rounds.last(there.made)
        found: Carried | None = None
        for begin in reversed(begins):
            found = self._rounds.carry(begin, later, there.made, False, found)
        assert found is not None
        self._stopped[id(value)] = found
        own = self._long.back(value)
        if own is not None and own != there:
            self._ended[id(value)] = self._ended_at(own, begins[0])
        if own != there and self._long.stopped:
            raise RoundsDiffer

    def _ended_at(self, own: Round, begin: Value) -> Carried:
        """Return what is carried if the rounds end by themselves; its first value is never read."""
        for each in self._rounds.begins:
            if (each.made, each.back) == (own.made, own.back):
                return each
        if own.back > 1:
            raise RoundsDiffer
        return self._rounds.carry(begin, self._rounds.last(own.made), own.made, False, None)

    def _any_begin(self, made: Made) -> Value:
        for each, begin in self._rounds.begins.items():
            if each.made == made:
                return begin
        raise RoundsDiffer

    def _same_or_counted(self, value: Value) -> None:
        read = {times: self._reading(times, value) for times in self._beside}
        found = {times: each for times, each in read.items() if each is not None}
        same = [each is value or same_constant(each, value)
                for each in found.values()]  # fmt: skip
        if all(same):
            return
        numbers = {n: each.tensor for n, each in found.items() if isinstance(each, Constant)}
        if len(numbers) < len(found) or not isinstance(value, Constant) or value.name:
            raise RoundsDiffer
        few, one = numbers[BUDGET.rounds.short], numbers[1]
        if few.dtype == torch.bool or any(t.shape != few.shape for t in (one, value.tensor)):
            raise RoundsDiffer
        whole = None if few.is_floating_point() else "floor"
        step = torch.div(few - one, BUDGET.rounds.short - 1, rounding_mode=whole)
        begin = one - step
        rounds = self._long.rounds
        more = [0] if self._long.stopped else [0, 1]
        fits = [n for n in more if torch.equal(begin + step * (rounds + n), value.tensor)]
        if not fits or not all(torch.equal(begin + step * n, t) for n, t in numbers.items()):
            raise RoundsDiffer
        self._counts[id(value)] = begin, step, fits[0]

    # The graph.

    def write(self) -> None:
        long, builder = self._long, self._builder
        nodes = long.nodes
        outputs = [value for _, value in self._trace.outputs]
        self._needed = needed_of(nodes, outputs)
        builder.nodes = []
        with blocks.rewriting(builder):
            self._keep(nodes[: long.start])
            self._write_loop(self._rounds, nodes)
            self._merge()
            for node in nodes[long.end :]:
                if node in self._needed:
                    self._keep_behind(node)
            self._trace.outputs = [(name, self._read(value)) for name, value in self._trace.outputs]
        self._trace.graph.nodes = builder.nodes
        self._tell()

    def _read_behind(self, rounds: Rounds, nodes: list[Node]) -> tuple[list[Made], list[Made]]:
        ends = [each.made for each in (*self._stopped.values(), *self._ended.values())]
        stacked: dict[Made, None] = {}
        for node in nodes[rounds.repeat.end :]:
            if id(node) in self._lists:
                found = [self._long.element(value) for value in node.inputs]
                stacked.update({each[0][0]: None for each in found if each is not None})
        return list(dict.fromkeys(ends)), list(stacked)

    def _number_of_rounds(self, repeat: Repeat) -> tuple[Value | None, list[Value]]:
        op, long = self._op, self._long
        first = long.asked[0].value
        assert first is not None
        most = None if long.stopped else op.cast(self._most(), torch.int64)
        return most, [self._goes_on(self._read(first)), op.constant(0, torch.int64)]

    def _most(self) -> Any:
        """Return the number of rounds behind the first question, if no value ends them before."""
        rounds = self._long.rounds
        if not self._until.sized:
            return rounds
        asked = rounds_of(self._trace.escapes.values())
        lengths = filter(dims.is_dynamic, map(length_of, asked))
        near = {n.poly: n for n in lengths if dims.plain(n) - rounds in (0, 1)}
        if len(near) != 1:
            raise RoundsDiffer
        self._sizes.extend(near.values())
        (length,) = near.values()
        return dims.larger(length - (dims.plain(length) - rounds), 0)

    def _after_round(self, on: Value, counted: list[Value], made: dict[Made, Value]) -> list[Value]:
        op = self._op
        going = self._goes_on(made[self._asked[0]])
        turns = op.Add(counted[1], op.constant(1, torch.int64))
        return [going, op.Identity(going), turns]

    def _goes_on(self, value: Value) -> Value:
        op = self._op
        yes = op.cast(value, torch.bool)
        yes = op.Reshape(yes, op.constant([], torch.int64)) if yes.shape != () else yes
        return op.Identity(yes) if self._until.on else op.Not(yes)

    def _length(self, repeat: Repeat, counted: list[Value]) -> Any:
        self._on, self._turns = counted
        for value in counted:
            value.sized(())
        return dims.Dim(Poly.of(Atom("item", (self._turns,), repeat.times)))

    def _merge(self) -> None:
        """Set what is read behind the rounds: carried values, and numbers that count rounds."""
        op = self._op
        for key, each in self._stopped.items():
            self._instead[key] = self._ends[each]
            if key in self._ended and self._ended[key] != each:
                self._instead[key] = self._either(self._ends[self._ended[key]], self._ends[each])
        for key, (begin, step, more) in self._counts.items():
            turns = self._turns
            if more:
                turns = op.Add(turns, op.cast(self._on, torch.int64))
            wide = op.constant(step, step.dtype)
            self._instead[key] = op.Add(
                op.constant(begin, begin.dtype), op.Mul(op.cast(turns, step.dtype), wide)
            )

    def _either(self, ended: Value, stopped: Value) -> Value:
        """Return `ended` if the rounds came to an end by themselves, else `stopped`."""
        op = self._op
        yes, no = (op.body(lambda value=value: op.Identity(value)) for value in (ended, stopped))
        made = op.If(self._on, then_branch=yes, else_branch=no)
        a, b = ended.shape, stopped.shape
        if a is None or b is None or len(a) != len(b):
            raise RoundsDiffer
        made.sized(
            n if shapes.same(n, m) else dims.Dim.leaf(made, axis, dims.plain(n))
            for axis, (n, m) in enumerate(zip(a, b))
        )
        return made

    def _keep_behind(self, node: Node) -> None:
        found = self._elements.get(id(node.inputs[0])) if maps(node) else None
        if found is not None:
            source, k = found
            key = id(source), node.op, *(moved_axes(node) if node.op != "Cast" else ())
            shape = node.outputs[0].shape or ()
            mapped = self._mapped.setdefault(key, Mapped(source.many, shape, source, node))
            self._note_element(mapped, k, node.outputs[0])
            return
        self._keep([node])
        self._size_behind(node)
        for value in node.outputs:
            if id(value) in self._stopped:
                self._instead[id(value)] = self._either(value, self._ends[self._stopped[id(value)]])

    def _note_element(self, source: Source, k: int, value: Value) -> None:
        self._held.append(value)
        self._elements[id(value)] = source, k

    def _replace_join(self, node: Node) -> bool:
        self._list = self._lists.get(id(node))
        return super()._replace_join(node)

    def _join_part(self, part: Part, axis: int, stacks: bool, often: Any = None) -> Value:
        """Join values of all rounds but the last few; how many depends on how the loop ended."""
        if stacks or len(part.each) > 1 or not part.runs:
            raise RoundsDiffer
        op, (run,), count = self._op, part.runs, part.count
        source, first, step = run.source, run.first, run.step
        if self._list is None or step != 1 or source.along is not None or first != self._list.first:
            raise RoundsDiffer
        stacked, left = source.stacked(op), source.many - first - count
        left_out: Any = left
        if left != self._list.left_out:
            ended, stopped = (op.constant(n, torch.int64) for n in (left, self._list.left_out))
            left_out = op.Where(self._on, ended, stopped)
        if first or left or left_out is not left:
            end = op.Sub(self._turns, left_out)
            stacked = op.Slice(stacked, [first], op.Reshape(end, [1]), [0])
        turned = moved(op, stacked, len(source.shape) + 1, 0, axis)
        if source.shape[axis] == 1:
            return op.Squeeze(turned, [axis + 1])
        shape = source.shape
        return op.Reshape(turned, op.sizes([*shape[:axis], -1, *shape[axis + 1 :]]))

    def _read(self, value: Value, known: bool = False) -> Value:
        if id(value) in self._long.made and id(value) not in self._instead:
            raise RoundsDiffer  # one round among many made it
        return super()._read(value, known)

    def _infer_sizes_again(self, node: Node) -> None:
        """Do nothing: `_size_behind` sizes all that follows from the rounds."""

    def _size_behind(self, node: Node) -> None:
        """Infer the output sizes of a node behind the rounds: they may follow from their number."""
        follows = self._anew | set(map(id, self._instead.values()))
        if follows.isdisjoint(id(value) for _, value in reads(node)):
            return
        known = shape_rules.infer(node.op, node.inputs, node.attributes, len(node.outputs))
        for value, now in zip(node.outputs, known):
            if value.shape is None or node.domain:
                continue
            sizes = [shapes.RUN_TIME] * len(value.shape) if now is None else now
            value.sized(
                dims.Dim.leaf(value, axis, dims.plain(value.shape[axis]))
                if n is shapes.RUN_TIME
                else n
                for axis, n in enumerate(sizes)
            )
            self._anew.add(id(value))

    def _tell(self) -> None:
        line = self._until.line
        file, number = line
        told = f"the rounds at {file}:{number} are a loop in the graph: it goes on until the data end it"
        seen = f"that anything else does was not seen in {self._long.rounds} rounds"
        text = f"{told} ({seen})" if self._long.stopped else told
        self._trace.findings.append(Finding(FOLLOWED, text, Where(file, number)))
        if self._sizes:
            self._carry_lengths()
        few = self._long.stopped and self._long.rounds < BUDGET.rounds.endless
        for escape in self._trace.escapes.values():
            if asked_there(self._trace, escape, {line}):
                escape.carried = not few
                escape.beyond = f"the data end it: {seen}" if few else escape.beyond

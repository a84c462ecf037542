"""Every way that a model goes, recorded and joined."""

from __future__ import annotations

import dataclasses
import functools
from builtins import len  # its own: `world` hooks that of the model
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING

import torch

from ...errors import HxError, is_of_the_world
from ...sizes.asked import At
from ...tensors.values import Constant
from ..capture import Capture, capture
from ..origins import Frames
from .joining import Joining, NotAlike
from .reached import Reached, leading
from .rows import (
    FEW,
    MOST,
    Answers,
    Line,
    Row,
    answers_of,
    apart,
    common,
    questions_of,
    row_of,
    splits_of,
    stands,
)
from .told import tell
from .unreached import require_unbaked
from .written import write_graph

if TYPE_CHECKING:
    from ...proof.cases.work import Work

RUNS = 48  # recordings that are tried
ROOM, LITTLE = 8, 2000  # times the nodes of the first one, and some more: see `Prepared.room`
# Nodes in all that is recorded to hear other answers, at least, and times those of the first one:
# where a solver asks of each step how far it is off, no number of recordings has all its ways.
# Counted in nodes and not in seconds, so that the same model always has the same file.
ENOUGH, AT_MOST = 6000, 6
TIMES, LONG = 32, 1 << 32  # as much work as the first one, or as hardly anybody waits for


def record(first: Capture) -> None:
    """Makes a recording one of all ways that the model goes on the other inputs, too.

    Each way through that graph has been recorded, and is the same there: where no input is known
    that leads along it, the model hears the answers that do, whatever is true.
    """
    every = Every(first)
    for tensors in first.prepared.also:
        every.record(tensors)
    if first.prepared.also and every.alone:
        raise apart()  # what is wrong there is no other way
    for tensors in first.prepared.alike if every.asks_of_values else ():
        every.record(tensors)
    every.join()
    every.hear_all()
    every.join_anew()
    every.tell_refused()
    if first.prepared.also or not every.alone:
        every.write()
    else:
        first.prepared.one_of = False


class Every:
    """Recordings of one model, and the row that they make."""

    def __init__(self, first: Capture) -> None:
        self._first = first
        self._captures = [first]
        self._heard = {answers_of(first)}
        self._tried: set[Answers] = set()
        self._between: set[Answers] = set()  # tried as what lies between two recordings
        self._row = row_of(first)
        self._as_recorded = [self._row.as_recorded()]
        self._runs = 0
        self._joined = [self._row.answers]
        self._waiting: list[Row] = []
        self._postponing = False  # ways that differ from what is known in nothing
        # Those that give constants: PyTorch computed what other ways have nodes for, and these tell
        # what that is.
        self._constant: list[Row] = []
        self._refused: dict[tuple[bool, ...], Exception] = {}  # by the first answers
        self._of_values = _of_values(first)
        self._nodes = len(first.recording.builder.nodes)
        self._room = ROOM * self._nodes + LITTLE
        self._left = max(ENOUGH, AT_MOST * self._nodes)  # nodes, to hear other answers

    @property
    def alone(self) -> bool:
        """Whether no other recording went another way."""
        return len(self._captures) == 1

    @property
    def asks_of_values(self) -> bool:
        """Whether other data of the same sizes may lead another way."""
        return any(map(_of_values, self._captures))

    def record(
        self, tensors: dict[str, torch.Tensor], answers: Sequence[bool] = (), costs: bool = True
    ) -> None:
        """Records the model on other inputs, or with the first of its questions answered so.

        What sizes decide alone `costs` nothing: there are few ways, as one answer gives others.
        """
        from ...proof.cases.asking import too_much  # which knows of recordings

        first = self._first
        costs &= bool(answers)
        if self._runs == RUNS or (costs and self._left <= 0) or too_much(first, tensors):
            return
        self._runs += 1
        again = dataclasses.replace(
            first.prepared, tensors=tensors, answers=tuple(answers), room=self._room
        )
        try:
            found = capture(again, first.registry, first.opset, first.wanted)
        except Exception as problem:
            # The model's own, or that of a converter which this way alone would need: without it,
            # the proof fails there as it did before.
            if is_of_the_world(problem):
                raise
            self._refused[tuple(answers)] = problem
            self._left -= self._nodes if costs else 0  # how far it came, nobody knows
            return
        self._left -= len(found.recording.builder.nodes) if costs else 0
        self._refused.pop(tuple(answers), None)
        if found.recording.missing or answers_of(found) in self._heard:
            return
        self._heard.add(answers_of(found))
        self._captures.append(found)
        more = self._of_values | _of_values(found)
        if len(more) <= FEW:
            self._of_values = more
        row = row_of(found)
        self._as_recorded.append(row.as_recorded())
        self._wait(row)

    def _wait(self, row: Row) -> None:
        constant = all(isinstance(value, Constant) for value in row.outputs)
        (self._constant if constant else self._waiting).append(row)

    def join(self) -> None:
        """Those that part late come first: what they have in common is in one piece then.

        Of one that parts, and parts again, nobody can tell what comes of which answer: what is the
        same but for the first of them is recorded before it.
        """
        for postponed in (self._postponing, False):  # what did not fit may, when others are there
            left = []
            while self._waiting:
                at = max(range(len(self._waiting)), key=self._in_common)
                other = self._waiting.pop(at)
                common, way = self._nearest(other)
                answers = (*other.answers[: common + 1], *way[common + 1 :])
                if answers not in self._heard | self._tried | self._between:
                    self._waiting.append(other)
                    self._between.add(answers)
                    self._record_between(answers, other, way, common)
                    self._waiting.insert(0, self._waiting.pop())
                    continue
                try:
                    self._row = Joining(self._row, other, self._joined).row(postponed)
                    self._joined.append(other.answers)
                except NotAlike:
                    left.append(other)
            self._waiting = left

    def _record_between(self, answers: Answers, other: Row, way: Answers, common: int) -> None:
        """Records what is the same as `way` but for the first of the other row's own answers; not
        where no sizes lead there."""
        mine = next(row for row in self._as_recorded if row.answers == way)
        asked = [*questions_of(other.items)][: common + 1] + [*questions_of(mine.items)][
            common + 1 :
        ]
        sizes = leading([*zip(asked, (yes for _, yes in answers))], self._sizes)
        elsewhere, tensors = self._first.prepared.elsewhere, self._first.prepared.tensors
        if elsewhere is None or elsewhere.recorded in sizes:
            self.record(tensors, [yes for _, yes in answers])
            self._record_elsewhere(answers)
            return
        for tensors in elsewhere.at_some(sizes, self._fit):
            if answers not in self._heard:
                self.record(tensors, [yes for _, yes in answers])

    def join_anew(self) -> None:
        """What does not fit behind those that were known first may, now that all are: also those that
        differ in something before those that do not, which hide where the others part."""
        for postponing in (False, True):
            if not (self._waiting or self._constant):
                return
            before = self._row, self._joined, self._waiting, self._constant
            self._postponing = postponing
            self._row, *others = [row.as_recorded() for row in self._as_recorded]
            self._joined, self._waiting, self._constant = [self._row.answers], [], []
            for row in others:
                self._wait(row)
            self.join()
            self.hear_all()
            if self._waiting:
                self._row, self._joined, self._waiting, self._constant = before

    def _in_common(self, at: int) -> int:
        return self._nearest(self._waiting[at])[0]

    def _nearest(self, other: Row) -> tuple[int, Answers]:
        """How many answers it has in common with what it is to be joined with, at the most."""
        return max((common(way, other.answers), way) for way in self._joined)

    def unheard(self) -> Answers | None:
        """The answers along a way of the graph that nobody has recorded; None if there is none.

        A line that goes both ways does so wherever it is asked. Where few questions are about what
        is in a tensor, so does each of these.
        """
        if len(self._captures) > MOST or self._runs == RUNS or self._left <= 0:
            return None
        both = self._both()
        if len(self._of_values) <= FEW:
            both |= self._of_values
        reached = self._reached()
        for way in reached.ways:
            for at, (line, yes) in enumerate(way):
                other = (*way[:at], (line, not yes))
                known = {heard[: at + 1] for heard in self._heard}
                if line in both and other not in known and other not in self._tried:
                    if reached.led[other]:
                        return other
            if way not in self._heard and way not in self._tried:
                return way
        return None

    def _reached(self) -> Reached:
        return Reached(self._row.items, self._sizes)

    @functools.cached_property
    def _sizes(self) -> list[At]:
        """Many that the inputs may have, and what is worked out of each."""
        elsewhere = self._first.prepared.elsewhere
        return [*map(At, elsewhere.sizes if elsewhere is not None else [{}])]

    def _fit(self, sizes: Mapping[str, int]) -> bool:
        """Whether a run of these is no more than anybody waits for, and has room in memory."""
        from ...proof.room import too_large

        at, (work, usual) = At(sizes), self._work
        return work.at(at) <= max(TIMES * usual, LONG) and not too_large(work.memory(at))

    @functools.cached_property
    def _work(self) -> tuple[Work, float]:
        """What the first recording computes, and how much that is at its own sizes."""
        from ...proof.cases.othersizes import sizes_of
        from ...proof.cases.work import Work

        work = Work(self._first.recording.builder.nodes)
        return work, work.at(At(sizes_of(self._first.prepared)))

    def hear_all(self) -> None:
        while True:
            if (answers := self.unheard()) is not None:
                self.hear(answers)
            elif self._constant:
                self._waiting += self._constant
                self._constant = []
                self.join()
            else:
                return

    def hear(self, answers: Answers) -> None:
        """Records a way, on inputs on which the model goes along it when it hears these answers."""
        self._tried.add(answers)
        if self._reached().of_sizes(answers):
            for tensors in self._leading(answers) or [self._first.prepared.tensors]:
                self.record(tensors, [yes for _, yes in answers], costs=False)
                if any(heard[: len(answers)] == answers for heard in self._heard):
                    break
            self.join()
            return
        known = [captured.prepared.tensors for captured in self._captures]
        by_shapes = {
            tuple(tuple(t.shape) for t in inputs.values()): inputs for inputs in known[::-1]
        }
        smallest_first = sorted(
            by_shapes.values(), key=lambda inputs: sum(t.numel() for t in inputs.values())
        )
        for tensors in (*self._leading(answers), *smallest_first):
            self.record(tensors, [yes for _, yes in answers])
            if any(heard[: len(answers)] == answers for heard in self._heard):
                break
        self._record_elsewhere(answers)
        self.join()

    def _record_elsewhere(self, answers: Answers) -> None:
        """What the model does on a way may want data that lead there: those on which most of the
        answers are true. And what is asked of sizes answers itself: where two of them go their ways,
        inputs that lead along these may be there for each size, but not for both together."""
        led = [captured for captured in self._captures[1:] if not captured.prepared.forced]
        led.sort(key=lambda captured: -len(set(answers) & set(answers_of(captured))))
        some = [captured.prepared.tensors for captured in led[:3]]
        elsewhere = self._first.prepared.elsewhere
        if elsewhere is not None:
            known = [captured.prepared.tensors for captured in self._captures]
            some += [*self._leading(answers), *elsewhere.mixed(known, self._fit)]
        for tensors in some:
            if any(heard[: len(answers)] == answers for heard in self._heard):
                return
            self.record(tensors, [yes for _, yes in answers])

    def _leading(self, answers: Answers) -> list[dict[str, torch.Tensor]]:
        """Inputs of sizes that lead there, if those of the recording do not."""
        elsewhere = self._first.prepared.elsewhere
        if elsewhere is None:
            return []
        sizes = [dict(at.sizes) for at in self._reached().led.get(answers, ())]
        return [] if elsewhere.recorded in sizes else [*elsewhere.at_some(sizes, self._fit)]

    def tell_refused(self) -> None:
        """What the model raises where it hears another answer: a check of its inputs, it may be."""
        for captured in self._captures:
            recording = captured.recording
            went = [question.yes for question in recording.questions.each]
            for at, question in enumerate(recording.questions.each):
                problem = self._refused.get((*went[:at], not went[at]))
                if not isinstance(problem, (HxError, NoneType)):
                    for (_, file, line), escape in recording.escapes.items():
                        if question.line == (file, line):
                            escape.beyond = _refusal(problem, recording.frames)

    def write(self) -> None:
        """The graph of the first recording is that of all then."""
        first, (_, *others) = self._first, self._captures
        both = self._both()
        reached = self._reached()
        ways = set(reached.ways)
        left = any(
            question.line in both and not (reached.of_sizes(way) and self._is_refused(way))
            for question, way in reached.open
        )
        if not both or self._waiting or self._constant or not ways <= self._heard or left:
            raise apart()
        if not stands(self._row) or self._goes_round_untruly():
            raise apart()
        if not all(Joining(self._row, row).agrees() for row in self._as_recorded):
            raise apart()
        tell(first, others, both)
        require_unbaked(zip(self._captures, self._as_recorded), self._first.prepared.alike)
        recorded = first.recording.builder.nodes
        write_graph(first, self._row)
        if first.recording.builder.lengths is not None:
            first.recording.builder.lengths.rearranged(recorded)
        for other in others:
            for domain, version in other.recording.builder.domains.items():
                first.recording.builder.domains.setdefault(domain, version)
        for escape in first.recording.escapes.values():
            if escape.kind == "bool" and not escape.carried and not escape.beyond:
                escape.beyond = "the file goes this way whatever is in it"
        lines = [f"{file}:{line}" for file, line in sorted(both)]
        more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
        first.notes.append(
            f"recorded {len(self._captures)} times: both ways of the branch at "
            f"{', '.join(lines[:3])}{more} are in the graph"
        )
        for other in others:
            other.recording.let_go()
        first.others = [each for each in others if not each.prepared.forced]
        first.heard = [each for each in others if each.prepared.forced]

    def _is_refused(self, answers: Answers) -> bool:
        """Whether the model itself raises an error there."""
        problem = self._refused.get(tuple(yes for _, yes in answers))
        return problem is not None and not isinstance(problem, HxError)

    def _goes_round_untruly(self) -> bool:
        """Whether a way goes round for what is found in data that do not lead there."""
        return any(
            escape.kind == "rounds" and not escape.carried
            for captured in self._captures
            if captured.prepared.forced
            for escape in captured.recording.escapes.values()
        )

    def _both(self) -> set[Line]:
        """The lines that go both ways."""
        return {split.question.line for split in splits_of(self._row.items)}


def _of_values(captured: Capture) -> set[Line]:
    """The lines that ask what is in a tensor."""
    return {q.line for q in captured.recording.questions.each if q.of_values}


def _refusal(problem: Exception, frames: Frames) -> str:
    """What is told of an error behind an answer that is not true.

    The model's own `raise` says what it does there. What PyTorch raises may come from data that do
    not hold what the model heard: an empty mask, of which it takes the largest.
    """
    told = str(problem).strip().partition("\n")[0][:100]
    told = f"{type(problem).__name__}: {told}" if told else type(problem).__name__
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None and not frames.machinery(trace.tb_frame.f_code):
        return f"with the other answer, the model raises {told}"
    return (
        f"the file goes this way whatever is in it: with the other answer it fails ({told}) on data "
        "that have this one; give inputs that lead there, or write it with torch.where"
    )

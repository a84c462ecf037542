"""Recordings of every way that a model goes, joined in one graph."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from traceback import walk_tb
from types import NoneType

import torch

from ...budget import BUDGET
from ...errors import HxError, Unsupported
from ...findings import FOLLOWED, Finding
from ...ir.recipe import Branches, Forced, Line
from ...ir.sizes.comparisons import At
from ...ir.value import Constant
from ...ir.work import Work
from ...recording.origins import is_machinery, is_own_error
from ...recording.runs.expected_memory import expected_memory
from ...recording.trace import Trace
from ...samples.elsewhere import Elsewhere
from ...samples.sizes import sizes_of
from ...text import first_few
from ..copied_trace import copied, copied_escapes
from ..protocol import Merge, NotRecorded, RecordingWanted, Unmerged
from .align import Joining, NotAlike
from .joined_findings import tell
from .node_rows import (
    Answers,
    Row,
    answers_of,
    apart,
    common,
    questions_of,
    row_of,
    splits_of,
    stands,
    too_many,
)
from .reachable_ways import KnownSizes, Reached, goes_along
from .untested_sides import find_baked
from .write_branches import write_graph


def merge(first: Trace) -> Merge[Trace | Unmerged]:
    """Turn a recording into one of all ways that the model goes, on other inputs too.

    Each way through the graph has been recorded and is the same there. If no known input leads
    along a way, the model is given the answers of that way, whether they are true or not.
    """
    try:
        return (yield from _joined(first))
    except Unsupported as problem:
        return Unmerged(problem)


def _joined(first: Trace) -> Merge[Trace | Unmerged]:
    branches = first.recipe.flow.branches
    assert branches is not None
    first = dataclasses.replace(first, escapes=copied_escapes(first))
    exploration = Exploration(first, branches)
    for tensors in branches.required:
        yield from exploration.record(tensors)
    if branches.required and exploration.alone:
        raise apart()  # they go the same way: no branch explains the failure
    for tensors in branches.variations if exploration.asks_of_values else ():
        yield from exploration.record(tensors)
    yield from exploration.join()
    yield from exploration.hear_all()
    exploration.require_few_ways()
    yield from exploration.join_anew()
    exploration.tell_refused()
    if branches.required or not exploration.alone:
        return (yield from exploration.write())
    return dataclasses.replace(first, recipe=first.recipe.without_branches())


class Limits:
    """Limits on recordings: their number, the nodes of each, and the nodes of all with given
    answers.
    """

    def __init__(self, nodes: int) -> None:
        limits = BUDGET.nodes
        self._nodes = nodes  # of the first recording
        self.each = limits.forced_factor * nodes + limits.forced_addition
        self._runs, self._left = 0, max(limits.branches, limits.branches_factor * nodes)

    def allow(self, costs: bool = True) -> bool:
        return self._runs < BUDGET.runs.branches and (not costs or self._left > 0)

    def took(self, nodes: int | None, costs: bool) -> None:
        """Count a recording of `nodes` nodes; None stands for a failed one, of unknown length."""
        self._runs += 1
        self._left -= (self._nodes if nodes is None else nodes) if costs else 0


class Joined:
    """The row that recordings are joined in, the answers of each, and rows that wait."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.ways = [row.answers]
        self.waiting: list[Row] = []
        # Rows with only constant outputs: PyTorch computed what other rows have nodes for. They
        # wait for the others, whose nodes tell what was computed.
        self.constant: list[Row] = []

    @property
    def is_complete(self) -> bool:
        return not self.waiting and not self.constant

    def wait(self, row: Row) -> None:
        constant = all(isinstance(value, Constant) for value in row.outputs)
        (self.constant if constant else self.waiting).append(row)

    def nearest(self, other: Row) -> tuple[int, Answers]:
        """Return the most first answers that a row shares with a joined way, and that way."""
        return max((common(way, other.answers), way) for way in self.ways)

    def pop_latest(self) -> Row:
        """Remove and return the waiting row that parts latest from a joined way."""
        latest = max(range(len(self.waiting)), key=lambda at: self.nearest(self.waiting[at])[0])
        return self.waiting.pop(latest)

    def join(self, other: Row, postponed: bool) -> bool:
        """Join a row; return False if it does not fit."""
        try:
            self.row = Joining(self.row, other, self.ways).row(postponed)
        except NotAlike:
            return False
        self.ways.append(other.answers)
        return True


class Exploration:
    """Recordings of one model, and the row that they are joined in."""

    def __init__(self, first: Trace, branches: Branches) -> None:
        self._first, self._branches = first, branches
        self._traces = [first]
        self._heard = {answers_of(first)}
        self._tried: set[Answers] = set()
        self._between: set[Answers] = set()  # tried as a way between two recordings
        self._joined = Joined(row_of(first))
        self._ways_of: tuple[Row, Reached] | None = None  # the ways of the row that is joined
        self._postponing = False  # rows whose new `If`s have no results
        self._refused: dict[tuple[bool, ...], Exception] = {}  # by the answers that led there
        self._of_values = _of_values(first)
        self._limits = Limits(len(first.nodes))

    @property
    def alone(self) -> bool:
        """True if no other recording went another way."""
        return len(self._traces) == 1

    @property
    def asks_of_values(self) -> bool:
        """True if other data of the same sizes may lead another way."""
        return any(map(_of_values, self._traces))

    def record(
        self, tensors: dict[str, torch.Tensor], answers: Sequence[bool] = (), costs: bool = True
    ) -> Merge[None]:
        """Record the model on other inputs, or with these answers to its first questions.

        A way that sizes alone decide `costs` nothing: there are few, because one answer implies
        others.
        """
        first = self._first
        costs &= bool(answers)
        at = At(sizes_of(first.recipe, tensors))
        if any(goes_along(trace, at) for trace in self._traces):
            return  # answers that are given are those to questions about values
        if (
            not self._limits.allow(costs)
            or expected_memory(first, first.escapes.values(), tensors) > BUDGET.bytes.results
        ):
            return
        forced = Forced(tuple(answers), first.recipe.forced.by_line)
        again = dataclasses.replace(
            first.recipe, inputs=tensors, forced=forced, limit=self._limits.each
        )
        found = yield RecordingWanted(again)
        if isinstance(found, NotRecorded):
            # Without this way, the proof fails there as before.
            self._refused[tuple(answers)] = found.error
            self._limits.took(None, costs)
            return
        self._limits.took(len(found.nodes), costs)
        self._refused.pop(tuple(answers), None)
        if found.calls.missing or answers_of(found) in self._heard:
            return
        self._heard.add(answers_of(found))
        self._traces.append(found)
        more = self._of_values | _of_values(found)
        if len(more) <= BUDGET.runs.lines_of_values:
            self._of_values = more
        self._joined.wait(row_of(found))

    def join(self) -> Merge[None]:
        """Join the waiting rows, first those that part late: what they share is then in one piece.

        If a row parts more than once, it is unknown which answer causes which difference. So a way
        that differs only in the first of these answers is recorded and joined before it.
        """
        for postponed in (self._postponing, False):  # a row may fit once others are joined
            left = []
            while self._joined.waiting:
                other = self._joined.pop_latest()
                common, way = self._joined.nearest(other)
                answers = (*other.answers[: common + 1], *way[common + 1 :])
                if answers not in self._heard | self._tried | self._between:
                    self._joined.waiting.append(other)
                    self._between.add(answers)
                    yield from self._record_between(answers, other, way, common)
                    self._joined.waiting.insert(0, self._joined.waiting.pop())
                elif not self._joined.join(other, postponed):
                    left.append(other)
            self._joined.waiting = left

    def _record_between(
        self, answers: Answers, other: Row, way: Answers, common: int
    ) -> Merge[None]:
        """Record `way` with only the first differing answer of the other row; record nothing if no
        sizes lead there.
        """
        mine = next(trace for trace in self._traces if answers_of(trace) == way)
        asked = [*questions_of(other.items)][: common + 1] + mine.questions[common + 1 :]
        sizes = self._sizes.leading([*zip(asked, (yes for _, yes in answers))])
        elsewhere, tensors = self._elsewhere, self._first.recipe.inputs
        if elsewhere is None or elsewhere.recorded in sizes:
            yield from self.record(tensors, [yes for _, yes in answers])
            yield from self._record_elsewhere(answers)
            return
        for tensors in elsewhere.at_some(sizes, self._fit):
            if answers not in self._heard:
                yield from self.record(tensors, [yes for _, yes in answers])

    def join_anew(self) -> Merge[None]:
        """Join all recordings again if some did not fit, now that all are known.

        A row may fit behind another one only. The second try postpones rows whose `If`s have no
        results: they hide where the others part.
        """
        for postponing in (False, True):
            before = self._joined
            if before.is_complete:
                return
            self._postponing = postponing
            row, *others = map(row_of, self._traces)
            self._joined = Joined(row)
            for row in others:
                self._joined.wait(row)
            yield from self.join()
            yield from self.hear_all()
            if self._joined.waiting:
                self._joined = before

    def unheard(self) -> Answers | None:
        """Return the answers along a way of the graph that is not recorded; None if there is none.

        A line with both answers may have both wherever it is asked. If few lines ask about values,
        each of these may have both answers, too.
        """
        if len(self._traces) > BUDGET.runs.merged_branches or not self._limits.allow():
            return None
        both = self._both()
        if len(self._of_values) <= BUDGET.runs.lines_of_values:
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

    def require_few_ways(self) -> None:
        """Raise if there are more ways than a graph may have, or than may be recorded."""
        if len(self._traces) > BUDGET.runs.merged_branches:
            raise too_many()
        if not self._limits.allow() and not set(self._reached().ways) <= self._heard:
            raise too_many()

    def _reached(self) -> Reached:
        row = self._joined.row
        if self._ways_of is None or self._ways_of[0] is not row:
            self._ways_of = row, Reached(row.items, self._sizes)
        return self._ways_of[1]

    @functools.cached_property
    def _elsewhere(self) -> Elsewhere | None:
        """Inputs of other sizes, if these may lead along other ways."""
        return Elsewhere(self._first.recipe) if self._branches.other_sizes else None

    @functools.cached_property
    def _sizes(self) -> KnownSizes:
        """Many sizes that the inputs may have."""
        elsewhere = self._elsewhere
        return KnownSizes([*map(At, elsewhere.sizes if elsewhere is not None else [{}])])

    def _fit(self, sizes: Mapping[str, int]) -> bool:
        """Return True if a run at these sizes is short enough and fits in memory."""
        at, (work, usual) = At(sizes), self._work
        most = max(BUDGET.work.branch_factor * usual, BUDGET.work.branch)
        return work.at(at) <= most and work.memory(at) <= BUDGET.bytes.results

    @functools.cached_property
    def _work(self) -> tuple[Work, float]:
        """Work of the first recording, and its amount at the recorded sizes."""
        work = self._first.graph.work
        return work, work.at(At(sizes_of(self._first.recipe)))

    def hear_all(self) -> Merge[None]:
        while True:
            if (answers := self.unheard()) is not None:
                yield from self.hear(answers)
            elif self._joined.constant:
                self._joined.waiting += self._joined.constant
                self._joined.constant = []
                yield from self.join()
            else:
                return

    def hear(self, answers: Answers) -> Merge[None]:
        """Record the way with these answers, on inputs for which they are true if there are any."""
        self._tried.add(answers)
        if self._reached().of_sizes(answers):
            for tensors in self._leading(answers) or [self._first.recipe.inputs]:
                yield from self.record(tensors, [yes for _, yes in answers], costs=False)
                if any(heard[: len(answers)] == answers for heard in self._heard):
                    break
            yield from self.join()
            return
        known = [trace.recipe.inputs for trace in self._traces]
        by_shapes = {
            tuple(tuple(t.shape) for t in inputs.values()): inputs for inputs in known[::-1]
        }
        smallest_first = sorted(
            by_shapes.values(), key=lambda inputs: sum(t.numel() for t in inputs.values())
        )
        for tensors in (*self._leading(answers), *smallest_first):
            yield from self.record(tensors, [yes for _, yes in answers])
            if any(heard[: len(answers)] == answers for heard in self._heard):
                break
        yield from self._record_elsewhere(answers)
        yield from self.join()

    def _record_elsewhere(self, answers: Answers) -> Merge[None]:
        """Record a way on data or sizes that may lead there, until a recording goes along it.

        The model may need data that lead there, so inputs on which most of the answers are true
        come first. Sizes answer questions by themselves. If two of these have both answers, known
        inputs may lead along each way but not along both, so their sizes are mixed.
        """
        led = [trace for trace in self._traces[1:] if not trace.recipe.forced]
        led.sort(key=lambda trace: -len(set(answers) & set(answers_of(trace))))
        some = [trace.recipe.inputs for trace in led[:3]]
        elsewhere = self._elsewhere
        if elsewhere is not None:
            known = [trace.recipe.inputs for trace in self._traces]
            some += [*self._leading(answers), *elsewhere.mixed(known, self._fit)]
        for tensors in some:
            if any(heard[: len(answers)] == answers for heard in self._heard):
                return
            yield from self.record(tensors, [yes for _, yes in answers])

    def _leading(self, answers: Answers) -> list[dict[str, torch.Tensor]]:
        """Return inputs of sizes that lead along a way, if the recorded sizes do not."""
        elsewhere = self._elsewhere
        if elsewhere is None:
            return []
        sizes = self._sizes.at(self._reached().led.get(answers, 0))
        return [] if elsewhere.recorded in sizes else [*elsewhere.at_some(sizes, self._fit)]

    def tell_refused(self) -> None:
        """Note the errors that the model raises after another answer: it may be checking its inputs."""
        for trace in self._traces:
            went = [question.yes for question in trace.questions]
            for at, question in enumerate(trace.questions):
                problem = self._refused.get((*went[:at], not went[at]))
                if not isinstance(problem, (HxError, NoneType)):
                    for (_, file, line), escape in trace.escapes.items():
                        if question.line == (file, line):
                            escape.beyond = _refusal(problem)
                            escape.raises = not is_own_error(problem)

    def write(self) -> Merge[Trace | Unmerged]:
        """Put all ways into the graph of the first recording, or return why that would be wrong."""
        first, others = copied(self._first), self._traces[1:]
        both = self._both()
        self._require_all_ways(both)
        tell(first, others, both)
        baked = yield from find_baked((first, *others), self._branches.variations)
        if baked is not None:
            return baked
        write_graph(first, self._joined.row, others)
        self._tell_written(first, both)
        first.merged.members = [each for each in others if not each.recipe.forced]
        first.merged.forced_members = [each for each in others if each.recipe.forced]
        return first

    def _require_all_ways(self, both: set[Line]) -> None:
        """Raise unless every way through the row was recorded, and is the same there."""
        row, reached = self._joined.row, self._reached()
        if not both or not self._joined.is_complete or not set(reached.ways) <= self._heard:
            raise apart()
        for question, way in reached.open:
            if question.line in both and not (reached.of_sizes(way) and self._is_refused(way)):
                raise apart()
        if not stands(row) or self._goes_round_untruly():
            raise apart()
        if not all(Joining(row, row_of(each)).agrees() for each in self._traces):
            raise apart()

    def _tell_written(self, merged: Trace, both: set[Line]) -> None:
        for escape in merged.escapes.values():
            if escape.kind == "bool" and not escape.carried and not escape.beyond:
                escape.beyond = "the file always takes this branch"
        lines = [f"{file}:{line}" for file, line in sorted(both)]
        text = (
            f"recorded {len(self._traces)} times: both ways of the branch at "
            f"{first_few(lines, 3)} are in the graph"
        )
        merged.findings.append(Finding(FOLLOWED, text))

    def _is_refused(self, answers: Answers) -> bool:
        """Return True if the model itself raises an error on this way."""
        problem = self._refused.get(tuple(yes for _, yes in answers))
        return (
            problem is not None and not isinstance(problem, HxError) and not is_own_error(problem)
        )

    def _goes_round_untruly(self) -> bool:
        """Return True if data that do not lead along a way decide its number of rounds."""
        return any(
            escape.kind == "rounds" and not escape.carried
            for trace in self._traces
            if trace.recipe.forced
            for escape in trace.escapes.values()
        )

    def _both(self) -> set[Line]:
        """Return the lines that have both answers."""
        return {split.question.line for split in splits_of(self._joined.row.items)}


def _of_values(trace: Trace) -> set[Line]:
    """Return the lines that ask about values of a tensor."""
    return {q.line for q in trace.questions if q.of_values}


def _refusal(problem: Exception) -> str:
    """Describe an error that follows an untrue answer.

    The model's own `raise` says what the model does there. An error of PyTorch may come from data
    that contradict the answer, such as the maximum of an empty mask. An error of hx is no
    fact about the model.
    """
    told = str(problem).strip().partition("\n")[0][:100]
    told = f"{type(problem).__name__}: {told}" if told else type(problem).__name__
    if is_own_error(problem):
        return f"the file always takes this branch: hx failed to record the other one ({told})"
    frames = [frame for frame, _ in walk_tb(problem.__traceback__)]
    if frames and not is_machinery(frames[-1].f_code):
        return f"with the other answer, the model raises {told}"
    return (
        f"the file always takes this branch: with the other answer it fails ({told}) on data "
        "that have this one; give inputs that lead there, or write it with torch.where"
    )

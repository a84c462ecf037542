"""Loops with an If in each round: `for t in range(n): if x[:, t].sum() > 0: h = f(h)`.

It is impossible to record every way through so many rounds. So the model hears the same answer in
all of them and, once for each round, the other answer in that round alone. Laid side by side, these
recordings give an If in each round. Recordings with other answers must be ways through that graph
as it is. If the rounds with their Ifs are not alike, they are no loop.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import torch

from ...budget import BUDGET
from ...errors import Unsupported
from ...findings import FOLLOWED, Finding
from ...ir.recipe import Folding, Forced, Line
from ...ir.sizes.comparisons import At
from ...recording.trace import Trace
from ..branches.align import Joining, NotAlike
from ..branches.joined_findings import tell
from ..branches.node_rows import Answers, Row, row_of, splits_of, stands
from ..branches.untested_sides import find_baked
from ..branches.write_branches import write_graph
from ..copied_trace import copied
from ..protocol import Merge, NotRecorded, RecordingWanted, Unmerged
from .write_loops import write_loops


def asked_in_rounds(trace: Trace) -> set[Line]:
    """Return the lines that ask about values of tensors again and again."""
    return {line for line, count in _often(trace).items() if count >= BUDGET.rounds.alike}


def _often(trace: Trace) -> Counter[Line]:
    return Counter(q.line for q in trace.questions if q.of_values)


def merge_with_branches(trace: Trace) -> Merge[Trace | Unmerged]:
    """Write the loops of a recording, with an If for each question that its rounds ask.

    Return the recording that has them, which may be another one.
    """
    return (yield from _with_ifs(trace, write_loops))


def merge_in_turn(trace: Trace) -> Merge[Trace | Unmerged]:
    """Write an If for each question that a fixed number of rounds asks, which stay as they are."""
    if not asked_in_rounds(trace):
        return Unmerged(Unsupported("no question is asked again and again"))
    return (yield from _with_ifs(trace, lambda joined: joined))


def _with_ifs(trace: Trace, write: Callable[[Trace], Trace | Unmerged]) -> Merge[Trace | Unmerged]:
    in_rounds = asked_in_rounds(trace)
    lines = in_rounds or {*_often(trace)}  # or questions asked once, outside of rounds
    if not lines:
        return write(trace)
    refused: Unmerged | None = None
    baked: Unmerged | None = None
    bases = yield from _bases(trace, lines)
    for _, told in sorted(bases, key=lambda each: -each[0]):
        base = yield from _recorded(trace, (), told)
        if base is None:  # it could be recorded before, and nothing is left to spend
            return Unmerged(Unsupported("the rounds were not recorded again"), unfolded=True)
        try:
            rounds = InRounds(trace, base, told, bool(in_rounds))
            joined = write((yield from rounds.joined()))
        except NotAlike:
            continue
        except Unsupported as problem:
            joined = Unmerged(problem)
        if isinstance(joined, Unmerged):
            refused = refused or joined
            continue
        found = yield from rounds.find_baked()  # last, because it takes long
        if found is None:
            return joined
        baked = found
    if unmerged := baked or refused:
        return dataclasses.replace(unmerged, unfolded=True)
    where = ", ".join(f"{file}:{line}" for file, line in sorted(lines))
    no_if = f"what the model asks in each round at {where} becomes no If in a loop"
    return Unmerged(Unsupported(no_if), unfolded=True)


def _bases(trace: Trace, lines: set[Line]) -> Merge[list[tuple[int, dict[Line, bool]]]]:
    """Return the answers true and false for all rounds, each with the number of nodes recorded."""
    bases = []
    for yes in (True, False):
        told = dict.fromkeys(lines, yes)
        while (found := (yield from _recorded(trace, (), told))) is not None:
            more = asked_in_rounds(found) - told.keys()
            if not more:
                bases.append((len(found.nodes), told))
                break
            told |= dict.fromkeys(more, yes)
    return bases


def _recorded(
    trace: Trace,
    answers: tuple[bool, ...],
    told: dict[Line, bool],
    tensors: dict[str, torch.Tensor] | None = None,
) -> Merge[Trace | None]:
    """Record the model once more with these answers; return None if it fails."""
    recipe = trace.recipe
    # With folding, the first rounds, whose state is constant, would differ from the others.
    folded = recipe.folding is Folding.FOLDED
    unfolded = Folding.UNFOLDED if folded else recipe.folding
    again = dataclasses.replace(
        recipe,
        forced=Forced(answers, told),
        inputs=tensors or recipe.inputs,
        folding=unfolded,
    )
    found = yield RecordingWanted(again)
    return None if isinstance(found, NotRecorded) else found


def work_of(trace: Trace) -> float:
    """Return the work that a recording took."""
    return trace.graph.work.at(At({})) + BUDGET.work.recorded_node * len(trace.nodes)


class InRounds:
    def __init__(self, trace: Trace, base: Trace, told: dict[Line, bool], in_rounds: bool) -> None:
        self._trace, self._told, self._in_rounds = trace, told, in_rounds
        flow = trace.recipe.flow
        assert flow.branches is not None
        self._variations = flow.branches.variations
        self._numbered = flow.loops is not None and flow.loops.numbered
        self._led: list[Trace] = []  # recordings with other numbers of rounds
        self._row = row_of(base)
        self._traces: list[Trace] = []
        self._nodes, self._work = 0, 0.0  # of these
        self._add(base)
        self._ways: list[Answers] = [self._row.answers]

    def joined(self) -> Merge[Trace]:
        base, asked = self._traces[0], self._row.answers
        places = [at for at, (line, _) in enumerate(asked) if line in self._told]
        most = BUDGET.runs.numbered_rounds if self._numbered else BUDGET.runs.branches_in_rounds
        if len(places) > most or len(places) * work_of(base) > BUDGET.work.branches_in_rounds:
            raise NotAlike
        turned = {}
        for at in reversed(places):  # last rounds first
            turned[at] = yield from self._turn(asked, at)
        others = yield from self._on_other_data()
        if not stands(self._row) or not all(map(self._agrees, others)):
            # A value made after one answer may be read only after the next one: change both.
            for far in range(1, len(self._told) + 2):
                for at, other in reversed([*zip(places, places[far:])]):
                    if self._has_room():
                        place = other + len(turned[at]) - len(asked)
                        yield from self._turn(turned[at], place)
        for trace in others:
            if not self._agrees(trace):
                self._join(row_of(trace))
        if not stands(self._row) or not all(map(self._agrees, self._traces)):
            raise NotAlike
        return self._written()

    def _add(self, trace: Trace) -> None:
        self._traces.append(trace)
        self._nodes += len(trace.nodes) + len(trace.questions)
        self._work += work_of(trace)

    def _has_room(self) -> bool:
        return (
            len(self._traces) < BUDGET.runs.branches_in_rounds
            and self._nodes < BUDGET.nodes.branches_in_rounds
            and self._work < BUDGET.work.branches_in_rounds
        )

    def _agrees(self, trace: Trace) -> bool:
        return Joining(self._row, row_of(trace)).agrees()

    def _turn(self, asked: Answers, at: int) -> Merge[Answers]:
        """Record one other answer, and other answers to the questions that only follow it."""
        answers = (*(yes for _, yes in asked[:at]), not asked[at][1])
        if not self._has_room():
            raise NotAlike
        found = yield from _recorded(self._trace, answers, self._told)
        if found is None:
            raise NotAlike
        self._add(found)
        row = row_of(found)
        self._join(row)
        now, rest = row.answers[at + 1 :], asked[at + 1 :]
        more = len(now) - len(rest)
        if more > 0 and now[more:] == rest:
            for inner in range(at + more, at, -1):
                if row.answers[inner][0] not in self._told:
                    raise NotAlike
                yield from self._turn(row.answers, inner)
        return row.answers

    def _join(self, row: Row) -> None:
        self._row = Joining(self._row, row, self._ways).row()
        self._ways.append(row.answers)

    def _on_other_data(self) -> Merge[list[Trace]]:
        """Record the model with other answers in all rounds, with true ones, and on other data."""
        others = {line: not yes for line, yes in self._told.items()}
        some = []
        for told in (others, {}):
            some.append((yield from _recorded(self._trace, (), told)))
        elsewhere = []
        for tensors in self._variations[: BUDGET.runs.other_data]:
            elsewhere.append((yield from _recorded(self._trace, (), {}, tensors)))
        if self._in_rounds:
            some += elsewhere
        else:
            self._led = [found for found in elsewhere if found is not None]
        made = [found for found in some if found is not None]
        for trace in made:
            self._add(trace)
        return made

    def _written(self) -> Trace:
        base, others = copied(self._traces[0]), self._traces[1:]
        both = {split.question.line for split in splits_of(self._row.items)}
        tell(base, others, both)
        write_graph(base, self._row, others)
        lines = ", ".join(f"{file}:{line}" for file, line in sorted(both))
        where = "each round" if self._in_rounds else "the file"
        text = (
            f"recorded {len(self._traces)} times: both ways of the branch at {lines} are in {where}"
        )
        base.findings.append(Finding(FOLLOWED, text))
        base.merged.members = [each for each in (*others, *self._led) if not each.recipe.forced]
        # Not if a recording has too few rounds to ask anything, as for an empty list.
        if not any(both.isdisjoint(_often(each)) for each in self._led):
            base.merged.forced_members = [each for each in others if each.recipe.forced]
        return base

    def find_baked(self) -> Merge[Unmerged | None]:
        return (yield from find_baked(self._traces, self._variations))

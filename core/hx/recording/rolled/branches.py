"""`for t in range(n): if x[:, t].sum() > 0: h = f(h)`: an If in each round of a loop.

Nobody can record every way through so many rounds. So the model hears the same answer in all of
them, and, once for each round, the other one in that round alone: laid side by side, these
recordings give an If in each round. Others, in which it hears other answers, have to be ways
through that, as they are. The rounds, with their Ifs, then are alike, or they are no loop.
"""

from __future__ import annotations

import dataclasses
from builtins import len, range, sum  # their own: `world` hooks those of the model
from collections import Counter
from collections.abc import Iterator

import torch

from ...errors import Baked, Unsupported, is_of_the_world
from ..both.joining import Joining, NotAlike
from ..both.rows import Answers, Line, Row, row_of, splits_of, stands
from ..both.told import tell
from ..both.unreached import require_unbaked
from ..both.written import write_graph
from ..capture import Capture, capture
from .lengths import LEAST_ALIKE
from .rolling import record

RUNS, NODES = 200, 100_000  # recordings, and nodes in all of them
NUMBERED = 40  # recordings that are tried where rounds ask for their numbers alone, it may be
SECONDS = 120.0  # that the model runs for all of them: a large one is not waited for
ALIKE = 8  # of them on other data, which go the ways that they lead


def asked_in_rounds(captured: Capture) -> set[Line]:
    """The lines that ask what is in tensors, again and again."""
    return {line for line, count in _often(captured).items() if count >= LEAST_ALIKE}


def _often(captured: Capture) -> Counter[Line]:
    return Counter(q.line for q in captured.recording.questions.each if q.of_values)


def both_ways(captured: Capture) -> Capture:
    """The recording with its loops: the same, or one with an If for all that is asked in rounds."""
    in_rounds = asked_in_rounds(captured)
    lines = in_rounds or {*_often(captured)}  # or what is asked beside them, once
    if not lines:
        record(captured)
        return captured
    refused: Exception | None = None
    for _, told in sorted(_bases(captured, lines), key=lambda each: -each[0]):
        try:
            rounds = InRounds(captured, told, bool(in_rounds))
            joined = rounds.joined()
            record(joined)
            rounds.require_unbaked()  # which takes long: not where there is no loop anyway
            return joined
        except NotAlike:
            continue
        except Unsupported as problem:
            refused = problem if isinstance(problem, Baked) else refused or problem
    if refused is not None:
        raise refused
    where = ", ".join(f"{file}:{line}" for file, line in sorted(lines))
    raise Unsupported(f"what the model asks in each round at {where} becomes no If in a loop")


def _bases(captured: Capture, lines: set[Line]) -> Iterator[tuple[int, dict[Line, bool]]]:
    """What it may hear in all rounds, with how many nodes there are then."""
    for yes in (True, False):
        told = dict.fromkeys(lines, yes)
        while (found := _recorded(captured, (), told)) is not None:
            more = asked_in_rounds(found) - told.keys()
            if not more:
                yield len(found.recording.builder.nodes), told
                break
            told |= dict.fromkeys(more, yes)


def _recorded(
    captured: Capture,
    answers: tuple[bool, ...],
    told: dict[Line, bool],
    tensors: dict[str, torch.Tensor] | None = None,
) -> Capture | None:
    """The model once more, that hears this; None where it does not go that way."""
    prepared = captured.prepared
    again = dataclasses.replace(
        prepared,
        answers=answers,
        told=told,
        tensors=tensors or prepared.tensors,
        unfolded=True,  # else the first rounds, in which the state is constant, are unlike the others
    )
    try:
        return capture(again, captured.registry, captured.opset, captured.wanted)
    except Exception as problem:  # the model's own, on data that do not lead there
        if is_of_the_world(problem):
            raise
        return None


class InRounds:
    def __init__(self, captured: Capture, told: dict[Line, bool], in_rounds: bool) -> None:
        self._captured, self._told, self._in_rounds = captured, told, in_rounds
        self._led: list[Capture] = []  # of other numbers of rounds: what is heard there
        base = _recorded(captured, (), told)
        assert base is not None  # as it was before
        self._base, self._row = base, row_of(base)
        self._captures = [base]
        self._rows: list[Row] = []  # as they were recorded
        self._ways: list[Answers] = [self._row.answers]

    def joined(self) -> Capture:
        base, asked = self._base, self._row.answers
        self._rows.append(self._row.as_recorded())
        places = [at for at, (line, _) in enumerate(asked) if line in self._told]
        most = NUMBERED if base.prepared.numbered else RUNS
        if len(places) > most or len(places) * base.seconds > SECONDS:
            raise NotAlike
        turned = {at: self._turn(asked, at) for at in reversed(places)}  # the last ones first
        others = list(self._on_other_data())
        if not stands(self._row) or not all(map(self._agrees, others)):
            # What one answer leaves behind is read behind the next one alone.
            for far in range(1, len(self._told) + 2):
                for at, other in reversed([*zip(places, places[far:])]):
                    if self._has_room():
                        self._turn(turned[at], other + len(turned[at]) - len(asked))
        for row in others:
            if not self._agrees(row):
                self._join(row)
        if not stands(self._row):
            raise NotAlike
        if not all(map(self._agrees, self._rows)):
            raise NotAlike
        self._write()
        return base

    def _has_room(self) -> bool:
        nodes = sum(len(row.items) for row in self._rows)
        seconds = sum(each.seconds for each in self._captures)
        return len(self._captures) < RUNS and nodes < NODES and seconds < SECONDS

    def _agrees(self, row: Row) -> bool:
        return Joining(self._row, row.as_recorded()).agrees()

    def _turn(self, asked: Answers, at: int) -> Answers:
        """Records the model with one other answer, and with those to what it asks behind that alone."""
        answers = (*(yes for _, yes in asked[:at]), not asked[at][1])
        if not self._has_room():
            raise NotAlike
        found = _recorded(self._captured, answers, self._told)
        if found is None:
            raise NotAlike
        self._captures.append(found)
        row = row_of(found)
        self._rows.append(row.as_recorded())
        self._join(row)
        now, rest = row.answers[at + 1 :], asked[at + 1 :]
        more = len(now) - len(rest)
        if more > 0 and now[more:] == rest:
            for inner in range(at + more, at, -1):
                if row.answers[inner][0] not in self._told:
                    raise NotAlike
                self._turn(row.answers, inner)
        return row.answers

    def _join(self, row: Row) -> None:
        self._row = Joining(self._row, row, self._ways).row()
        self._ways.append(row.answers)

    def _on_other_data(self) -> Iterator[Row]:
        """What the model does where it hears what is true, or the other answer in every round."""
        others = {line: not yes for line, yes in self._told.items()}
        prepared = self._captured.prepared
        some = [_recorded(self._captured, (), others), _recorded(self._captured, (), {})]
        alike = prepared.alike[:ALIKE]
        elsewhere = [_recorded(self._captured, (), {}, tensors) for tensors in alike]
        if self._in_rounds:
            some += elsewhere
        else:
            self._led = [found for found in elsewhere if found is not None]
        for found in some:
            if found is not None:
                self._captures.append(found)
                row = row_of(found)
                self._rows.append(row.as_recorded())
                yield row

    def _write(self) -> None:
        base, others = self._base, self._captures[1:]
        both = {split.question.line for split in splits_of(self._row.items)}
        tell(base, others, both)
        recorded = base.recording.builder.nodes
        write_graph(base, self._row)
        assert base.recording.builder.lengths is not None
        base.recording.builder.lengths.rearranged(recorded)
        for other in others:
            for domain, version in other.recording.builder.domains.items():
                base.recording.builder.domains.setdefault(domain, version)
        lines = ", ".join(f"{file}:{line}" for file, line in sorted(both))
        where = "each round" if self._in_rounds else "the file"
        base.notes.append(
            f"recorded {len(self._captures)} times: both ways of the branch at {lines} are in {where}"
        )
        base.others = [each for each in (*others, *self._led) if not each.prepared.forced]
        # Of too few rounds nothing is asked, as of a list with nothing in it: these are known data.
        if not any(both.isdisjoint(_often(each)) for each in self._led):
            base.heard = [each for each in others if each.prepared.forced]

    def require_unbaked(self) -> None:
        require_unbaked(zip(self._captures, self._rows), self._captured.prepared.alike)
        for other in (*self._captures[1:], *self._led):
            other.recording.let_go()

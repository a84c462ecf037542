"""Cases on the other side of the model's questions about sizes.

`if n > 64` was answered once, at the recorded sizes. The model runs at the nearest sizes where it
takes another way, and is recorded there as well: a question that it asks on that side alone (the
second half of an `or`, an `if` within the `if`) has another side, too. Where nobody can say which
sizes these are, the model runs at sizes far off.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...budget import BUDGET
from ...errors import Where
from ...findings import OPEN, Finding
from ...ir.input_grammar import Limits
from ...ir.size_moves import Move
from ...ir.sizes.comparisons import Asked, At, itself
from ...samples.sizes import Sizes, at, limits_of, sizes_of, told
from ..file_proof import Case
from ..subject import Subject
from .across import Across, tell
from .case_source import Planned
from .listening import Listening
from .othersizes import case_at

if TYPE_CHECKING:
    from ...ir.escapes import Escape


def other_answers(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases where the model's questions about sizes have other answers."""
    found, asked = crossed(subject, planned.at_other_sizes, planned.refused)
    ways = (*subject.members, *subject.forced_members)
    escapes = (escape for each in ways for escape in each.escapes.values())
    planned.questions |= dict.fromkeys([*asked, *(a for e in escapes for a in e.asked)])
    return found


def crossed(
    subject: Subject, cases: list[Case], refused: Sequence[Sizes] = ()
) -> tuple[list[Case], list[Asked]]:
    """Return cases on the other side of the model's questions, where no other size has shown it.

    Questions that the model asks at `refused` sizes, before its error, count as well.
    The second result is all questions of the model, on these sides as well.
    """
    # Questions that only another way asks belong to the proof of that way.
    apart = [
        id(escape)
        for other in (*subject.members, *subject.forced_members)
        for escape in other.escapes.values()
    ]
    escapes = [each for each in subject.escapes.values() if each.asked and id(each) not in apart]
    deeper = _deeper(subject)
    if not escapes and not deeper:
        return [], []
    crossing = _Crossing(subject, cases, refused)
    return crossing.begin(escapes, deeper), [*crossing.known]


def _deeper(subject: Subject) -> list[Escape]:
    """Return the questions asked after a false answer that had the same answer on all ways.

    The proof cannot go such a way by itself: sizes on the other side are found from the recorded
    sizes.
    """
    heard: dict[Asked, set[bool]] = {}
    for each in (subject, *subject.members, *subject.forced_members):
        for question in each.trace.questions:
            if question.asked is not None:
                heard.setdefault(question.asked, set()).add(question.yes)
    alone = {asked for asked, answers in heard.items() if len(answers) == 1}
    return [
        dataclasses.replace(escape, asked=dict.fromkeys(alone & escape.asked.keys()))
        for each in subject.forced_members
        for escape in each.escapes.values()
        if not alone.isdisjoint(escape.asked)
    ]


def far_off(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases at more than twice each recorded size.

    A graph is recorded at other sizes than the given ones if it was wrong elsewhere: a constant
    that was recorded at larger sizes may be right for all smaller ones.
    """
    if not subject.recipe.at_odd_sizes:
        return []
    return _Crossing(subject, planned.at_other_sizes).far_off()


@dataclasses.dataclass
class _Place:
    """Sizes at which the model was recorded, and its questions there that no earlier place had."""

    sizes: Sizes
    escapes: list[Escape]
    way: dict[Asked, Any]  # answers that led here, and that lead here again
    limits: dict[str, Limits]  # limits that exclude this side
    apart: bool = False  # whether the report omits these questions

    def leads(self, sizes: Mapping[str, int]) -> bool:
        """Return True if the model gets to the same questions at other sizes."""
        return all(asked.answer_if_known(At(sizes)) == heard for asked, heard in self.way.items())


class _Crossing:
    def __init__(self, subject: Subject, cases: list[Case], refused: Sequence[Sizes] = ()) -> None:
        self._subject, self._recipe = subject, subject.recipe
        self._words, self._limits = sizes_of(subject.recipe), limits_of(subject.recipe)
        self._listening = Listening(subject)
        self._work = subject.trace.graph.work
        self._waiting = list(cases)  # cases at which the model has not been recorded
        self._sizes = [sizes_of(self._recipe, case.feeds) for case in cases]
        self._cases = list(zip(self._sizes, cases))
        self._unled: set[tuple[str, Where]] = set()  # lines that no known data lead to
        self.known: dict[Asked, None] = {}  # questions of the model so far
        self._ways: list[dict[Asked, Any]] = [{}]
        self._found: list[Case] = []
        self._gone: list[Sizes] = []  # sizes well beyond a border at which the model has run
        # Moves to sizes that the model refuses, with their names.
        self._refused = [(told(sizes), Move(sizes)) for sizes in refused]

    def begin(self, escapes: list[Escape], deeper: Sequence[Escape] = ()) -> list[Case]:
        """Cross the questions from place to place, first where the model was recorded.

        Then follow the questions in `deeper`, which were asked after false answers.
        """
        across = self._across(self._words)
        self._leave_out_small(across, escapes)
        places = [self._place(self._words, escapes, {}, {})]
        if self._recipe.padding is not None:  # which questions does it ask after true answers?
            heard = self._listening.at(Case("recorded", dict(self._recipe.inputs), ()))
            places.append(
                self._place(self._words, [] if isinstance(heard, str) else heard.values(), {}, {})
            )
        places.append(self._place(self._words, deeper, {}, {}, apart=True))
        for place in places:
            around = across if place is places[0] else self._across(place.sizes)
            self._cross(place, around)
            self._well_beyond(place, around.anew())
            for case in self._waiting:
                places += self._listen(case)
            for name, move in self._refused:
                places += self._listen_until_error(name, move)
            self._waiting, self._refused = [], []
        if any(
            a.answer_if_known(At(self._words)) is None for escape in escapes for a in escape.asked
        ):
            self._far_off(across)
        return self._found

    def far_off(self) -> list[Case]:
        across = self._across(self._words)
        for word, n in self._words.items():
            step = self._limits[word].step
            self._go_to(across, word, range(2 * n + 1, 2 * n + 1 + step))
        return self._found

    def _far_off(self, across: Across) -> None:
        """Run the model at about twice, four times and half of each size.

        It is unknown at which sizes the answer changes. The question may be about a size known only
        at run time, such as the number of elements that a mask picks, or about data that follow from
        sizes in an unknown way.
        """
        for word, n in self._words.items():
            self._go_to(across, word, (2 * n + 1, 4 * n + 3, n // 2))

    def _go_to(self, across: Across, word: str, some: Iterable[int]) -> None:
        """Run the model at each of these sizes of a name, as far as the limits allow them."""
        for size in some:
            sizes = {**self._words, word: size}
            held = size > 1 and self._limits[word].hold(size) and sizes not in self._sizes
            if held and not across.refused(Move(sizes), 0):
                self._sizes.append(sizes)
                self._found += case_at(self._subject, sizes, told({word: size}))[0]

    def _across(self, sizes: Sizes) -> Across:
        return Across(self._work, sizes, self._limits, self._asked_at)

    def _asked_at(self, escape: Escape, sizes: Mapping[str, int]) -> bool:
        """Return True if the model reached that line in any of the cases at these sizes."""
        cases = [case for at, case in self._cases if at == sizes]
        return any(self._listening.asks(escape, case) for case in cases)

    def _leave_out_small(self, across: Across, escapes: list[Escape]) -> None:
        """Note which limits of a question would exclude the usual cases at small sizes.

        Larger sizes are left out: they are often wrong because they are no multiple of something.
        """
        small = [
            (case, sizes)
            for case, sizes in zip(self._waiting, self._sizes)
            if all(n <= self._words[word] for word, n in sizes.items())
        ]
        for side in across.sides(escapes, []):
            for move in side.moves:
                for case, sizes in small:
                    if not move.holds(sizes):
                        kept_out = side.escape, Move(sizes, move.limits)
                        self._subject.beyond.setdefault(case.name, kept_out)

    def _place(
        self,
        sizes: Sizes,
        escapes: Iterable[Escape],
        way: dict[Asked, Any],
        limits: dict,
        apart: bool = False,
    ) -> _Place:
        apart = apart or bool(way)
        new = []
        for escape in escapes:
            asked = {a: None for a in escape.asked if a not in self.known}
            # The report shows questions of the recording itself; those of other places are copies.
            new += [dataclasses.replace(escape, asked=asked) if apart else escape] if asked else []
        self.known.update(dict.fromkeys(a for escape in new for a in escape.asked))
        return _Place(sizes, new, way, limits, apart)

    def _cross(self, place: _Place, across: Across) -> None:
        tried = 0
        for side in across.sides(place.escapes, [s for s in self._sizes if place.leads(s)]):
            if across.shown(side, [s for s in self._sizes if place.leads(s)]):
                continue
            said = []
            moves = [move for move in side.moves if place.leads(move.sizes)]
            for move in moves or across.at_once(side.asked, place.leads):
                name = told({w: n for w, n in move.sizes.items() if n != self._words[w]})
                why = across.refused(move, tried)
                if why:
                    said.append(f"not tried at {name}: {why}")
                    continue
                case, refused = case_at(self._subject, move.sizes, name)
                said += refused
                self._refused += [(name, self._kept_out(move, place))] if refused else []
                if case:
                    tried += 1
                    led = self._led(side.escape, case[0], self._kept_out(move, place))
                    if led is not None:
                        said = [f"tried at {led.name}"]
                        break
                    said.insert(0, f"not tried at {name}: no inputs are known that lead there")
            for what in said[:1]:
                tell(side.escape, what)
                if place.apart and what.startswith("not tried"):
                    where = f"{side.escape.where} ({side.escape.detail})"
                    text = f"the model also asks, at {where}: {what}"
                    self._subject.notes.append(Finding(OPEN, text, side.escape.where))

    def _well_beyond(self, place: _Place, across: Across) -> None:
        """Run the model at sizes well beyond its questions, too, without another recording."""
        seen = [sizes for sizes in self._sizes if place.leads(sizes)]
        tried = 0
        for escape, move in across.well_beyond(place.escapes, seen):
            if move.sizes in self._sizes or not place.leads(move.sizes):
                continue
            (word,) = (w for w, n in move.sizes.items() if n != place.sizes[w])
            n, larger = move.sizes[word], move.sizes[word] > place.sizes[word]
            if any(s[word] >= n if larger else s[word] <= n for s in self._gone):
                continue
            if across.refused(move, tried):
                continue
            name = told({w: n for w, n in move.sizes.items() if n != self._words[w]})
            for case in case_at(self._subject, move.sizes, name)[0]:
                tried += 1
                self._gone.append(move.sizes)
                self._sizes.append(move.sizes)
                self._subject.beyond[case.name] = escape, self._kept_out(move, place)
                self._found.append(case)

    def _led(self, escape: Escape, case: Case, kept_out: Move) -> Case | None:
        """Return a case that leads to the question, if need be with other data, or None."""
        unled = (escape.kind, escape.where) in self._unled
        others = () if unled else self._listening.others(case)
        for each in itertools.chain([case], others):
            led = self._listening.asks(escape, each)
            if led or each is case:  # it stays a case, whatever it shows
                self._add(each, escape, kept_out, first=each is not case)
            if led:
                return each
        self._unled.add((escape.kind, escape.where))
        return None

    def _add(self, case: Case, escape: Escape, kept_out: Move, first: bool) -> None:
        self._subject.beyond[case.name] = escape, kept_out
        self._sizes.append(sizes_of(self._recipe, case.feeds))
        self._cases.append((self._sizes[-1], case))
        # A case with other data may show more than the case without.
        self._waiting.insert(len(self._waiting) - first, case)
        self._found.append(case)

    def _kept_out(self, move: Move, place: _Place) -> Move:
        """Return the move with limits that hold the recorded sizes: its own, or the way's."""
        own = move.holds(self._words)
        return move if own and move.limits else Move(move.sizes, place.limits)

    def _listen(self, case: Case) -> list[_Place]:
        """Return the model's questions at the sizes of a case, if it goes another way there."""
        sizes = sizes_of(self._recipe, case.feeds)
        way = self._way_to(sizes)
        if way in self._ways:
            return []
        if len(self._ways) > BUDGET.sizes.across:
            return self._unheard(case, "enough others were listened to")
        self._ways.append(way)
        heard = self._listening.at(case)
        if isinstance(heard, str):
            return self._unheard(case, heard)
        self._take_over(case)
        beyond = self._subject.beyond
        limits = beyond[case.name][1].limits if case.name in beyond else {}
        place = self._place(sizes, heard.values(), way, limits)
        return [place] if place.escapes else []

    def _listen_until_error(self, name: str, move: Move) -> list[_Place]:
        """Return the model's questions at sizes that it refuses.

        The error may be where a chain of questions ends (`n == 3`, `n == 4`, `n == 50`), or a
        lookup: other sizes have other answers there.
        """
        way = self._way_to(move.sizes)
        if way in self._ways or len(self._ways) > BUDGET.sizes.across:
            return []
        self._ways.append(way)
        case = Case(f"refused at {name}", at(self._recipe, move.sizes), ())
        heard = self._listening.before_error(case)
        place = self._place(move.sizes, heard.values(), way, move.limits)
        return [place] if place.escapes else []

    def _way_to(self, sizes: Sizes) -> dict[Asked, Any]:
        """Return the answers that lead the model elsewhere at other sizes than the recorded ones."""
        return {
            asked: heard
            for asked in self.known
            if asked.ask is not itself
            and (heard := asked.answer_if_known(At(sizes)))
            != asked.answer_if_known(At(self._words))
        }

    def _take_over(self, case: Case) -> None:
        """Add the model's questions about data that occur only there, and cases with other data."""
        found = self._listening.values_at(case)
        for key, escape in found.items():
            told = [f"at {case.name}", "the file always takes this branch"]
            escape.beyond = "; ".join(told if escape.kind == "bool" else told[:1])
            self._subject.escapes[key] = escape
        if any(escape.by_values() for escape in found.values()):
            for other in self._listening.others(case):
                if case.name in self._subject.beyond:
                    self._subject.beyond[other.name] = self._subject.beyond[case.name]
                self._found.append(other)

    def _unheard(self, case: Case, why: str) -> list[_Place]:
        text = f"what the model asks at {case.name} alone is not known, nor tried: {why}"
        self._subject.notes.append(Finding(OPEN, text))
        return []

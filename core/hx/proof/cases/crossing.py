"""What becomes of a file on the other side of what the model asked of sizes.

`if n > 64` was heard once, at the recorded sizes. The model is asked at the nearest sizes where it
goes another way, and there it is listened to as well: what it asks on that side alone (the second
half of an `or`, an `if` within the `if`) has another side, too. Where nobody can say which sizes
these are, it is asked far off.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import Where
from ...inputs.grammar import Limits
from ...recording.capture import Capture
from ...sizes.asked import Asked, At, itself
from ..verify import Case
from .across import MOST, Across, Move, tell
from .listening import Listening
from .othersizes import Sizes, case_at, limits_of, sizes_of, told
from .work import Work

if TYPE_CHECKING:
    from ...report import Escape

LISTENED = MOST  # other sizes at which the model is heard


def beyond(captured: Capture, cases: list[Case]) -> tuple[list[Case], list[Asked]]:
    """Cases on the other side of what the model asks, where none of those at other sizes has been;
    and all that it asks, on these sides as well."""
    # What it asks on another way alone, the proof of that way goes to.
    apart = [
        id(escape)
        for other in (*captured.others, *captured.heard)
        for escape in other.recording.escapes.values()
    ]
    escapes = [
        each for each in captured.recording.escapes.values() if each.asked and id(each) not in apart
    ]
    deeper = _deeper(captured)
    if not escapes and not deeper:
        return [], []
    crossing = _Crossing(captured, cases)
    return crossing.begin(escapes, deeper), [*crossing.known]


def _deeper(captured: Capture) -> list[Escape]:
    """What the model asked where it heard what is not true, and had the same answer on all ways.

    The proof cannot go such a way by itself: what lies beyond is found from the recorded sizes.
    """
    heard: dict[Asked, set[bool]] = {}
    for each in (captured, *captured.others, *captured.heard):
        for question in each.recording.questions.each:
            if question.asked is not None:
                heard.setdefault(question.asked, set()).add(question.yes)
    alone = {asked for asked, answers in heard.items() if len(answers) == 1}
    return [
        dataclasses.replace(escape, asked=dict.fromkeys(alone & escape.asked.keys()))
        for each in captured.heard
        for escape in each.recording.escapes.values()
        if not alone.isdisjoint(escape.asked)
    ]


def far_off(captured: Capture, cases: list[Case]) -> list[Case]:
    """Cases at more than twice each recorded size.

    A graph that was recorded at other sizes than were given was so because it was wrong elsewhere:
    what is baked in at larger sizes may be right for all that are smaller.
    """
    if captured.prepared.rolls or not captured.prepared.given:
        return []
    return _Crossing(captured, cases).far_off()


@dataclasses.dataclass
class _Place:
    """Sizes at which the model was heard, and what it asks there and at no place before."""

    sizes: Sizes
    escapes: list[Escape]
    way: dict[Asked, Any]  # what led there, and what it has to hear to come there again
    limits: dict[str, Limits]  # what leaves this side out
    apart: bool = False  # whether the report does not tell of these questions by itself

    def leads(self, sizes: Mapping[str, int]) -> bool:
        """Whether the model gets to the same questions at other sizes."""
        return all(asked.heard(At(sizes)) == heard for asked, heard in self.way.items())


class _Crossing:
    def __init__(self, captured: Capture, cases: list[Case]) -> None:
        self._captured, self._prepared = captured, captured.prepared
        self._words, self._limits = sizes_of(captured.prepared), limits_of(captured.prepared)
        self._listening = Listening(captured)
        self._work = Work(captured.recording.builder.nodes)
        self._waiting = list(cases)  # those at which nobody has listened
        self._sizes = [sizes_of(self._prepared, case.feeds) for case in cases]
        self._cases = list(zip(self._sizes, cases))
        self._unled: set[tuple[str, Where]] = set()  # lines that no data are known to lead to
        self.known: dict[Asked, None] = {}  # what it asks
        self._ways: list[dict[Asked, Any]] = [{}]
        self._found: list[Case] = []
        self._gone: list[Sizes] = []  # sizes well beyond a border, at which the model has answered

    def begin(self, escapes: list[Escape], deeper: Sequence[Escape] = ()) -> list[Case]:
        """Goes from place to place, first where the model was recorded; and beyond what was asked
        where it was only told to go."""
        across = self._across(self._words)
        self._leave_out_small(across, escapes)
        places = [self._place(self._words, escapes, {}, {})]
        if self._prepared.pads is not None:  # what else does it ask if it hears the truth?
            heard = self._listening.at(Case("recorded", dict(self._prepared.tensors), ()))
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
            self._waiting = []
        if any(a.heard(At(self._words)) is None for escape in escapes for a in escape.asked):
            self._far_off(across)
        return self._found

    def far_off(self) -> list[Case]:
        across = self._across(self._words)
        for word, n in self._words.items():
            step = self._limits[word].step
            self._go_to(across, word, range(2 * n + 1, 2 * n + 1 + step))
        return self._found

    def _far_off(self, across: Across) -> None:
        """Goes to about twice, four times and half of each size: where is an answer another one?

        Nobody can say. What was asked is a size that only the run knows, as of what a mask picks,
        or what a tensor says that follows from sizes in a way that is not known.
        """
        for word, n in self._words.items():
            self._go_to(across, word, (2 * n + 1, 4 * n + 3, n // 2))

    def _go_to(self, across: Across, word: str, some: Iterable[int]) -> None:
        """Has the model answer at each of these sizes of a name that it may have."""
        for size in some:
            sizes = {**self._words, word: size}
            held = size > 1 and self._limits[word].hold(size) and sizes not in self._sizes
            if held and not across.refused(Move(sizes), 0):
                self._sizes.append(sizes)
                self._found += case_at(self._captured, sizes, told({word: size}))[0]

    def _across(self, sizes: Sizes) -> Across:
        return Across(self._work, sizes, self._limits, self._asked_at)

    def _asked_at(self, escape: Escape, sizes: Mapping[str, int]) -> bool:
        """Whether the model got to that line in any of the cases at these sizes."""
        cases = [case for at, case in self._cases if at == sizes]
        return any(self._listening.asks(escape, case) for case in cases)

    def _leave_out_small(self, across: Across, escapes: list[Escape]) -> None:
        """Notes which limits leave out the usual cases at small sizes, of those of a question.

        Not for larger ones: what is wrong there is often that a size is no multiple of something.
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
                        self._captured.beyond.setdefault(case.name, kept_out)

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
            # Of the recording itself, it is told what was tried; of other places, nobody asks.
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
                case, refused = case_at(self._captured, move.sizes, name)
                said += refused
                if case:
                    tried += 1
                    led = self._led(side.escape, case[0], self._kept_out(move, place))
                    if led is not None:
                        said = [f"tried at {led.name}"]
                        break
                    said.insert(0, f"not tried at {name}: no data are known that lead there")
            for what in said[:1]:
                tell(side.escape, what)
                if place.apart and what.startswith("not tried"):
                    where = f"{side.escape.where} ({side.escape.detail})"
                    self._captured.notes.append(f"the model also asks, at {where}: {what}")

    def _well_beyond(self, place: _Place, across: Across) -> None:
        """Has the model answer at sizes that lie well beyond what it asks, too; it is not listened to
        once more there."""
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
            for case in case_at(self._captured, move.sizes, name)[0]:
                tried += 1
                self._gone.append(move.sizes)
                self._sizes.append(move.sizes)
                self._captured.beyond[case.name] = escape, self._kept_out(move, place)
                self._found.append(case)

    def _led(self, escape: Escape, case: Case, kept_out: Move) -> Case | None:
        """A case, or one with other data at its sizes, in which the model asks that; none of them may."""
        unled = (escape.kind, escape.where) in self._unled
        others = () if unled else self._listening.others(case)
        for each in itertools.chain([case], others):
            led = self._listening.asks(escape, each)
            if led or each is case:  # it is there, whatever it shows
                self._add(each, escape, kept_out, first=each is not case)
            if led:
                return each
        self._unled.add((escape.kind, escape.where))
        return None

    def _add(self, case: Case, escape: Escape, kept_out: Move, first: bool) -> None:
        self._captured.beyond[case.name] = escape, kept_out
        self._sizes.append(sizes_of(self._prepared, case.feeds))
        self._cases.append((self._sizes[-1], case))
        # What other data lead to at some sizes is more than what is there without.
        self._waiting.insert(len(self._waiting) - first, case)
        self._found.append(case)

    def _kept_out(self, move: Move, place: _Place) -> Move:
        """The same with limits that the recorded sizes are within: its own, or those of the way."""
        own = move.holds(self._words)
        return move if own and move.limits else Move(move.sizes, place.limits)

    def _listen(self, case: Case) -> list[_Place]:
        """What the model asks at the sizes of a case, if it goes another way there."""
        sizes = sizes_of(self._prepared, case.feeds)
        way = {
            asked: heard
            for asked in self.known
            if asked.ask is not itself
            and (heard := asked.heard(At(sizes))) != asked.heard(At(self._words))
        }
        if way in self._ways:
            return []
        if len(self._ways) > LISTENED:
            return self._unheard(case, "enough others were listened to")
        self._ways.append(way)
        heard = self._listening.at(case)
        if isinstance(heard, str):
            return self._unheard(case, heard)
        self._take_over(case)
        beyond = self._captured.beyond
        limits = beyond[case.name][1].limits if case.name in beyond else {}
        place = self._place(sizes, heard.values(), way, limits)
        return [place] if place.escapes else []

    def _take_over(self, case: Case) -> None:
        """What is in tensors is asked there alone: it is told, and other data may lead elsewhere."""
        found = self._listening.values_at(case)
        for key, escape in found.items():
            told = [f"at {case.name}", "the file goes this way whatever is in it"]
            escape.beyond = "; ".join(told if escape.kind == "bool" else told[:1])
            self._captured.recording.escapes[key] = escape
        if any(escape.by_values() for escape in found.values()):
            for other in self._listening.others(case):
                if case.name in self._captured.beyond:
                    self._captured.beyond[other.name] = self._captured.beyond[case.name]
                self._found.append(other)

    def _unheard(self, case: Case, why: str) -> list[_Place]:
        self._captured.notes.append(
            f"what the model asks at {case.name} alone is not known, nor tried: {why}"
        )
        return []

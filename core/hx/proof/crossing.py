"""What becomes of a file on the other side of what the model asked of sizes.

`if n > 64` was heard once, at the recorded sizes. The model is asked at the nearest sizes where it
goes another way, and there it is listened to as well: what it asks on that side alone (the second
half of an `or`, an `if` within the `if`) has another side, too. Where nobody can say which sizes
these are, it is asked far off.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import Where
from ..inputs.grammar import Limits
from ..recording.capture import Capture
from ..sizes.asked import Asked, At, Unforeseen, itself
from .across import MOST, Across, Move, tell
from .listening import Listening
from .othersizes import Sizes, case_at, limits_of, sizes_of, told
from .proof import Proof
from .verify import Case

if TYPE_CHECKING:
    from ..report import Escape

LISTENED = MOST  # other sizes at which the model is heard


def beyond(captured: Capture, cases: list[Case]) -> list[Case]:
    """Cases on the other side of what the model asks, where none of those at other sizes has been."""
    # What it asks on another way alone, the proof of that way goes to.
    apart = [
        id(escape)
        for other in (*captured.others, *captured.heard)
        for escape in other.recording.escapes.values()
    ]
    escapes = [
        each for each in captured.recording.escapes.values() if each.asked and id(each) not in apart
    ]
    return _Crossing(captured, cases).begin(escapes) if escapes else []


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

    def leads(self, sizes: Mapping[str, int]) -> bool:
        """Whether the model gets to the same questions at other sizes."""
        return all(_answer(asked, sizes) == heard for asked, heard in self.way.items())


class _Crossing:
    def __init__(self, captured: Capture, cases: list[Case]) -> None:
        self._captured, self._prepared = captured, captured.prepared
        self._words, self._limits = sizes_of(captured.prepared), limits_of(captured.prepared)
        self._listening = Listening(captured)
        self._waiting = list(cases)  # those at which nobody has listened
        self._sizes = [sizes_of(self._prepared, case.feeds) for case in cases]
        self._cases = list(zip(self._sizes, cases))
        self._unled: set[tuple[str, Where]] = set()  # lines that no data are known to lead to
        self._known: set[Asked] = set()
        self._ways: list[dict[Asked, Any]] = [{}]
        self._found: list[Case] = []

    def begin(self, escapes: list[Escape]) -> list[Case]:
        """Goes from place to place, first where the model was recorded."""
        across = self._across(self._words)
        self._leave_out_small(across, escapes)
        places = [self._place(self._words, escapes, {}, {})]
        for place in places:
            self._cross(place, across if place is places[0] else self._across(place.sizes))
            for case in self._waiting:
                places += self._listen(case)
            self._waiting = []
        if any(_answer(a, self._words) is None for escape in escapes for a in escape.asked):
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
        nodes = self._captured.recording.builder.nodes
        return Across(nodes, sizes, self._limits, self._asked_at)

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
        self, sizes: Sizes, escapes: Iterable[Escape], way: dict[Asked, Any], limits: dict
    ) -> _Place:
        new = []
        for escape in escapes:
            asked = {a: None for a in escape.asked if a not in self._known}
            # Of the recording itself, it is told what was tried; of other places, nobody asks.
            new += [dataclasses.replace(escape, asked=asked) if way else escape] if asked else []
        self._known.update(a for escape in new for a in escape.asked)
        return _Place(sizes, new, way, limits)

    def _cross(self, place: _Place, across: Across) -> None:
        tried = 0
        for side in across.sides(place.escapes, [s for s in self._sizes if place.leads(s)]):
            if across.shown(side, [s for s in self._sizes if place.leads(s)]):
                continue
            said = []
            for move in side.moves:
                if not place.leads(move.sizes):
                    continue
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
                if place.way and what.startswith("not tried"):
                    where = f"{side.escape.where} ({side.escape.detail})"
                    self._captured.notes.append(f"the model also asks, at {where}: {what}")

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
            for asked in self._known
            if asked.ask is not itself
            and (heard := _answer(asked, sizes)) != _answer(asked, self._words)
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


def _answer(asked: Asked, sizes: Mapping[str, int]) -> Any:
    try:
        return asked.answer(At(sizes))
    except (Unforeseen, ArithmeticError, ValueError, TypeError):
        return None


def may_matter(captured: Capture, escape: Escape, broken: Iterable[Sizes]) -> bool:
    """Whether it may be at fault at some of these sizes: a branch on sizes that goes the same way at
    all of them is not."""
    if escape.kind != "branch" or not escape.asked:
        return True
    recorded = sizes_of(captured.prepared)
    return any(
        (heard := _answer(asked, recorded)) is None or _answer(asked, sizes) != heard
        for asked in escape.asked
        for sizes in broken
    )


def ruled_out(captured: Capture, case: Case) -> Move | None:
    """What leaves out a case where a question of the model has another answer than recorded."""
    recording, words = captured.recording, sizes_of(captured.prepared)
    sizes = sizes_of(captured.prepared, case.feeds)
    limits = {word: captured.prepared.dynamic.limits.get(word, Limits()) for word in words}
    escapes = [each for each in recording.escapes.values() if each.asked]
    for side in Across(recording.builder.nodes, words, limits).sides(escapes, []):
        for move in side.moves:
            if not move.holds(sizes):
                return move
    return None


def narrow(captured: Capture, proof: Proof) -> None:
    """A file that is wrong only beyond what the model asked of its sizes is promised up to there.

    Not where next to nothing would be left: from half to twice the sizes that were given it has to
    be right, or the export has failed.
    """
    failed = [check for check in proof.cases if not check.ok]
    wrong = [check for check in failed if check.name in captured.beyond]
    given = any(check.name in captured.prepared.given for check in failed)
    if proof.checker or proof.problem or given or not wrong:
        return
    prepared, promised = captured.prepared, dict(captured.prepared.dynamic.limits)
    # One whose rounds become a loop was recorded at larger sizes than were given.
    given_sizes = sizes_of(prepared, prepared.given.get("given") if prepared.rolls else None)
    for check in wrong:
        _, move = captured.beyond[check.name]
        if not move.limits:
            return
        for word, limit in move.limits.items():
            promised[word] = promised.get(word, Limits()).and_also(limit)
    for word in {word for check in wrong for word in captured.beyond[check.name][1].limits}:
        limit, n = promised[word], given_sizes[word]
        if limit.low > max(n // 2, 1) or (limit.high is not None and limit.high < 2 * n):
            return
    # What else is wrong has to lie outside of these limits as well: size 1 is always tried.
    sizes = {case.name: sizes_of(captured.prepared, case.feeds) for case in captured.cases}
    broken = [
        [promised[w].written(w) for w, n in sizes[check.name].items()
         if w in promised and not promised[w].hold(n)]
        for check in failed
    ]  # fmt: skip
    if not all(broken):
        return
    for check, limits_of_it in zip(failed, broken):
        check.outside = ", ".join(limits_of_it)
    for check in wrong:
        escape, move = captured.beyond[check.name]
        limits = {word: promised[word] for word in move.limits}
        check.outside = ", ".join(limit.written(word) for word, limit in limits.items())
        captured.promised.update(limits)
        escape.beyond = escape.beyond.replace(f"tried at {check.name}", f"wrong at {check.name}")
        what = (
            "what is baked in is another number"
            if escape.kind == "baked"
            else "the model goes another way"
        )
        captured.notes.append(
            f"the file is right for {check.outside} only: at {check.name} {what}, at "
            f"{escape.where} ({escape.detail})"
        )

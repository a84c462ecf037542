"""Ways through a row that some sizes of the inputs lead along.

Sizes answer the questions about sizes, and one such answer may imply another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...budget import BUDGET
from ...ir.recipe import Sizes
from ...ir.sizes.comparisons import Asked, At, Unforeseen
from ...recording.reads.questions import Question
from ...recording.trace import Trace
from .node_rows import Answers, Items, Split, too_many


class KnownSizes:
    """Sizes that the inputs may have, and those at which an answer is possible, as bits."""

    def __init__(self, sizes: Sequence[At]) -> None:
        self._sizes = sizes
        self.all = (1 << len(sizes)) - 1
        self._answered: dict[Asked, _Answered] = {}

    def at(self, bits: int) -> list[Sizes]:
        return [dict(self._sizes[place].sizes) for place in _places(bits)]

    def leading(self, answered: Sequence[tuple[Question, bool]]) -> list[Sizes]:
        """Return the sizes at which all of these answers are possible."""
        bits = self.all
        for question, yes in answered:
            bits = self.possible(question, yes, bits)
        return self.at(bits)

    def possible(self, question: Question, yes: bool, among: int) -> int:
        """Return those of some sizes at which this answer is possible."""
        asked = question.asked
        if asked is None or question.of_values:
            return among  # no sizes answer it
        answered = self._answered.setdefault(asked, _Answered())
        for place in _places(among & ~answered.known):
            answered.add(place, _answer(asked, self._sizes[place]))
        return among & (answered.yes if yes else answered.no)


class _Answered:
    """Answers of one question at the sizes where it is known, as bits."""

    def __init__(self) -> None:
        self.known = self.yes = self.no = 0

    def add(self, place: int, answer: bool | None) -> None:
        """Note an answer; None is unforeseen, so both are possible."""
        bit = 1 << place
        self.known |= bit
        self.yes |= bit if answer is not False else 0
        self.no |= bit if answer is not True else 0


def goes_along(trace: Trace, at: At) -> bool:
    """Return True if the model goes the way of a recording at these sizes, whatever the data are.

    A number that left the graph may lead elsewhere without a question.
    """
    followed = all(each.carried or each.kind == "branch" for each in trace.escapes.values())
    return followed and all(
        each.asked is not None and not each.of_values and _answer(each.asked, at) is each.yes
        for each in trace.questions
    )


def _answer(asked: Asked, at: At) -> bool | None:
    try:
        return bool(asked.answer(at))
    except Unforeseen:
        return None


def _places(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


class Reached:
    """Ways through some items, with the sizes that lead along each.

    `led` maps the first answers of a way to the sizes that lead along them, as bits. `open` lists the
    questions that keep one answer though another is possible, with the answers up to the other one.
    """

    def __init__(self, items: Items, sizes: KnownSizes) -> None:
        self.open: list[tuple[Question, Answers]] = []
        self.led: dict[Answers, int] = {}
        self._sizes = sizes
        self._foreseen: dict[Answers, bool] = {(): True}
        start: list[tuple[Answers, int]] = [((), sizes.all)]
        self.ways: list[Answers] = [way for way, _ in self._through(items, start)]

    def of_sizes(self, answers: Answers) -> bool:
        """Return True if named sizes decide all of these: no other data lead there."""
        return bool(answers) and self._foreseen.get(answers, False)

    def _through(self, items: Items, ways: list[tuple[Answers, int]]) -> list[tuple[Answers, int]]:
        for item in items:
            if isinstance(item, Question | Split):
                ways = [new for way, left in ways for new in self._behind(item, way, left)]
                if len(ways) > BUDGET.runs.merged_branches:
                    raise too_many()
        return ways

    def _behind(
        self, item: Question | Split, way: Answers, left: int
    ) -> Iterator[tuple[Answers, int]]:
        question = item.question if isinstance(item, Split) else item
        for yes in (True, False):
            now = (*way, (question.line, yes))
            of_sizes = question.asked is not None and not question.of_values
            named = of_sizes and question.asked is not None and bool(question.asked.names())
            self._foreseen[now] = self._foreseen[way] and named
            found = self._sizes.possible(question, yes, left)
            self.led[now] = found
            if not found:
                continue
            if isinstance(item, Split):
                yield from self._through(item.sides[yes], [(now, found)])
            elif yes is item.yes:
                yield now, found
            else:
                self.open.append((item, now))

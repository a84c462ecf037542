"""Ways through a row that some sizes of the inputs lead along.

Sizes answer the questions about sizes, and one such answer may imply another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...budget import BUDGET
from ...ir.recipe import Sizes
from ...ir.sizes.comparisons import At, Unforeseen
from ...recording.questions import Question
from .node_rows import Answers, Items, Split, apart


class Reached:
    """Ways through some items, with the sizes that lead along each.

    `led` maps the first answers of a way to the `sizes` that lead along them. `open` lists the
    questions that keep one answer though another is possible, with the answers up to the other one.
    """

    def __init__(self, items: Items, sizes: list[At]) -> None:
        self.open: list[tuple[Question, Answers]] = []
        self.led: dict[Answers, list[At]] = {}
        self._foreseen: dict[Answers, bool] = {(): True}
        start: list[tuple[Answers, list[At]]] = [((), sizes)]
        self.ways: list[Answers] = [way for way, _ in self._through(items, start)]

    def of_sizes(self, answers: Answers) -> bool:
        """Return True if named sizes decide all of these: no other data lead there."""
        return bool(answers) and self._foreseen.get(answers, False)

    def _through(
        self, items: Items, ways: list[tuple[Answers, list[At]]]
    ) -> list[tuple[Answers, list[At]]]:
        for item in items:
            if isinstance(item, Question | Split):
                ways = [new for way, left in ways for new in self._behind(item, way, left)]
                if len(ways) > BUDGET.runs.merged_branches:
                    raise apart()
        return ways

    def _behind(
        self, item: Question | Split, way: Answers, left: list[At]
    ) -> Iterator[tuple[Answers, list[At]]]:
        question = item.question if isinstance(item, Split) else item
        for yes in (True, False):
            now = (*way, (question.line, yes))
            of_sizes = question.asked is not None and not question.of_values
            named = of_sizes and question.asked is not None and bool(question.asked.names())
            self._foreseen[now] = self._foreseen[way] and named
            found = [at for at in left if _may_be(question, at, yes)] if of_sizes else left
            self.led[now] = found
            if not found:
                continue
            if isinstance(item, Split):
                yield from self._through(item.sides[yes], [(now, found)])
            elif yes is item.yes:
                yield now, found
            else:
                self.open.append((item, now))


def leading(answered: Sequence[tuple[Question, bool]], sizes: Iterable[At]) -> list[Sizes]:
    """Return the sizes at which all of these answers are possible."""
    return [dict(at.sizes) for at in sizes if all(_may_be(q, at, yes) for q, yes in answered)]


def _may_be(question: Question, at: At, yes: bool) -> bool:
    """Return True if this answer is possible at these sizes."""
    if question.asked is None or question.of_values:
        return True  # no sizes answer it
    try:
        return bool(question.asked.answer(at)) is yes
    except Unforeseen:
        return True

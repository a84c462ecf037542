"""The ways through a row that some sizes of the inputs lead along: what is asked of sizes answers
itself, and of two questions the one may answer the other."""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model
from collections.abc import Iterable, Iterator, Sequence

from ...sizes.asked import At, Unforeseen
from ..questions import Question
from .rows import MOST, Answers, Items, Split, apart

Sizes = dict[str, int]


class Reached:
    """`led` says which of the `sizes` lead along the first answers of a way; `open` are questions
    that stay answered, though there may be another answer: with the answers up to that."""

    def __init__(self, items: Items, sizes: list[At]) -> None:
        self.open: list[tuple[Question, Answers]] = []
        self.led: dict[Answers, list[At]] = {}
        self._foreseen: dict[Answers, bool] = {(): True}
        start: list[tuple[Answers, list[At]]] = [((), sizes)]
        self.ways: list[Answers] = [way for way, _ in self._through(items, start)]

    def of_sizes(self, answers: Answers) -> bool:
        """Whether named sizes decide all of these: no other data lead there."""
        return bool(answers) and self._foreseen.get(answers, False)

    def _through(
        self, items: Items, ways: list[tuple[Answers, list[At]]]
    ) -> list[tuple[Answers, list[At]]]:
        for item in items:
            if isinstance(item, Question | Split):
                ways = [new for way, left in ways for new in self._behind(item, way, left)]
                if len(ways) > MOST:
                    raise apart()
        return ways

    def _behind(
        self, item: Question | Split, way: Answers, left: list[At]
    ) -> Iterator[tuple[Answers, list[At]]]:
        question = item.question if isinstance(item, Split) else item
        for yes in (True, False):
            now = (*way, (question.line, yes))
            sizes = question.asked is not None and question.asked.names() and not question.of_values
            self._foreseen[now] = self._foreseen[way] and bool(sizes)
            self.led[now] = found = [at for at in left if _may_be(question, at, yes)]
            if not found:
                continue
            if isinstance(item, Split):
                yield from self._through(item.sides[yes], [(now, found)])
            elif yes is item.yes:
                yield now, found
            else:
                self.open.append((item, now))


def leading(answered: Sequence[tuple[Question, bool]], sizes: Iterable[At]) -> list[Sizes]:
    """Those of the sizes at which all of these may be the answers."""
    return [dict(at.sizes) for at in sizes if all(_may_be(q, at, yes) for q, yes in answered)]


def _may_be(question: Question, at: At, yes: bool) -> bool:
    """Whether that may be the answer at these sizes."""
    if question.asked is None:
        return True
    try:
        return bool(question.asked.answer(at)) is yes
    except Unforeseen:
        return True

"""Places in a recording where the model asked for a number of rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...budget import BUDGET
from ...ir.escapes import Escape
from ...ir.sizes import dims, size_lists
from ...ir.sizes.comparisons import Asked, At, Unforeseen
from ...ir.sizes.counted_whiles import counted
from ...ir.sizes.size_polynomials import Poly
from ...ir.value import Node
from .round_counts import Asking, Known


class RoundMarks:
    def __init__(self) -> None:
        self.begins: set[int] = set()  # where rounds begin, as far as known
        self._asked: dict[Asked, list[int]] = {}  # where in the nodes
        self._known: tuple[Any, Known] | None = None  # as much as was asked then
        self._lengths: dict[int, tuple[Asked, Any]] = {}  # by the id of what was asked

    def ask(self, asked: Iterable[Asked], at: int) -> None:
        for each in asked:
            self._asked.setdefault(each, []).append(at)

    def copy(self) -> RoundMarks:
        made = RoundMarks()
        made.begins, made._asked = set(self.begins), {k: list(v) for k, v in self._asked.items()}
        return made

    def rearranged(self, before: list[Node], nodes: list[Node]) -> None:
        """Follow recorded nodes to other places, or into a branch of an If."""
        begun = {id(before[at].outputs[0]) for at in self.begins if at < len(before)}
        self.begins = {at for at, node in enumerate(nodes) if id(node.outputs[0]) in begun}
        now = {id(node.outputs[0]): at for at, node in enumerate(nodes)}
        places = [len(nodes)]
        for node in reversed(before):
            places.append(now.get(id(node.outputs[0]), places[-1]))
        places.reverse()
        self._known = None
        self._asked = {asked: [places[at] for at in each] for asked, each in self._asked.items()}

    def known(self, escapes: Mapping[tuple, Escape]) -> Known:
        """Return the sizes asked for as numbers of rounds, each with its place."""
        noted = escapes.values()
        asked = (sum(len(escape.asked) for escape in noted), sum(map(len, self._asked.values())))
        if self._known is None or self._known[0] != asked:
            self._known = asked, Known(self._each(noted))
        return self._known[1]

    def _each(self, escapes: Iterable[Escape]) -> Iterator[Asking]:
        for escape in escapes:
            for asked in rounds_of([escape]):
                if id(asked) not in self._lengths:
                    self._lengths[id(asked)] = asked, _enough(asked)
                length = self._lengths[id(asked)][1]
                if length is not None:
                    at = self._asked.get(asked) or self._asked.get(next(iter(escape.asked)), [0])
                    yield from ((place, dims.plain(length), length) for place in at)


def rounds_of(escapes: Iterable[Escape]) -> Iterator[Asked]:
    for escape in escapes:
        if escape.kind in ("range", "rounds"):
            yield from escape.asked
        elif escape.kind == "branch" and (found := counted(escape.asked)) is not None:
            yield found


def length_of(asked: Asked) -> Any:
    """Return the number of rounds that a question asks for; None where it is not known."""
    args = [dims.dim(x) if isinstance(x, Poly) else x for x in asked.of]
    if asked.ask is range:
        return size_lists.length_of(*args)
    return args[0] if asked.ask is int else None


def _enough(asked: Asked) -> Any:
    """Return the number of rounds, if there were enough of them to recognize; else None."""
    length = length_of(asked)
    # Counts from data, such as the experts of a token, may never be larger.
    far = BUDGET.rounds.recorded_far
    least = min(far, most_of(asked)) if asked.names() else BUDGET.rounds.alike
    return length if dims.is_dynamic(length) and dims.plain(length) >= least else None


def most_of(asked: Asked) -> int:
    """Return the number of rounds at the largest sizes tried, or the usual limit if they are too few."""
    try:
        most = count_of(asked, asked.as_large_as(BUDGET.sizes.larger_inputs))
    except (Unforeseen, ArithmeticError, ValueError):  # 2**n of them, or those of a square root
        return BUDGET.rounds.recorded
    return most if most >= BUDGET.rounds.alike_far else BUDGET.rounds.recorded


def count_of(asked: Asked, sizes: Mapping[str, int]) -> int:
    found = asked.answer(At(sizes))
    return len(found) if isinstance(found, range) else int(found)

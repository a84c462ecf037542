"""What each round gives to a list, joined in the round.

    for row in x:
        outs.append(row)           # one of these,
        for n in y[y > row[0]]:
            outs.append(row * n)   # and as many of these as there happen to be
    torch.stack(outs)

A list that gets several things of a round, of which one is not always as long, has them in turn. In
the round they are one piece, and the list is of such pieces.
"""

from __future__ import annotations

from builtins import len, max, min, range  # their own: `world` hooks those of the model
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from ...graph.op import Op
from ...sizes import shapes
from ...tensors.values import Node, Value
from ..both.rows import reads
from .lengths import LEAST_ALIKE, MOST_EACH, nodes_key
from .listed import axis_of
from .sources import maps


def with_rows(op: Op, nodes: list[Node]) -> tuple[list[Node], list[int]]:
    """The nodes with all that is joined so, and where each is now."""
    lists = [n for n in nodes if n.op == "Concat" and len(n.inputs) >= 2 * LEAST_ALIKE]
    rows = _Rows(op, nodes)
    for node in lists:
        rows.join(node)
    if not rows.behind:
        return nodes, [*range(len(nodes) + 1)]
    now: list[Node] = []
    places = []
    for place, node in enumerate(nodes):
        places.append(len(now))
        now += [] if node in rows.moved else [node]
        now += rows.behind.get(place, ())
    return now, [*places, len(now)]


class _Rows:
    def __init__(self, op: Op, nodes: list[Node]) -> None:
        self._op, self._nodes = op, nodes
        self._at = {id(value): at for at, node in enumerate(nodes) for value in node.outputs}
        self._often = Counter(id(value) for node in nodes for _, value in reads(node))
        self.behind: dict[int, list[Node]] = {}  # by where the last of a round is made
        self.moved: set[Node] = set()  # which are behind something now

    def join(self, node: Node) -> None:
        entries, axis = cast(list[Value], node.inputs), axis_of(node)
        keys = [self._key(value) for value in entries]
        made = [self._made(value) for value in entries]
        fixed = [self._alone(value) is None for value in entries]
        found: list[Value] = []
        place = 0
        while place < len(entries):
            many, count = _row(entries, keys, made, fixed, place)
            here = slice(place, place + many * count)
            if many > 1 and any(_varies(entries[here][slot::many], axis) for slot in range(many)):
                starts = range(place, here.stop, many)
                found += [self._joined(entries[start : start + many], node) for start in starts]
                place = here.stop
                continue
            # Nor would rounds be that begin a few entries later, but for those that go on behind it.
            rest = place + max(many * (count - LEAST_ALIKE), 1)
            found += entries[place:rest]
            place = rest
        node.inputs[:] = found

    def _key(self, value: Value) -> Any:
        at = self._at.get(id(value))
        return id(value) if at is None else nodes_key(self._nodes[at])

    def _alone(self, value: Value) -> Node | None:
        """What makes it, if that only moves axes of something, for the list alone."""
        at = self._at.get(id(value))
        if at is None or self._often[id(value)] > 1:
            return None
        node = self._nodes[at]
        return node if node.op != "Cast" and maps(node) else None

    def _made(self, value: Value) -> int | None:
        """Where it is made, or may be made."""
        alone = self._alone(value)
        source = value if alone is None else alone.inputs[0]
        return self._at.get(id(source))

    def _joined(self, row: Sequence[Value], node: Node) -> Value:
        outer, self._op._builder.nodes = self._op._builder.nodes, []
        try:
            made = self._op.Concat(*row, axis=node.attributes["axis"])
            nodes = self._op._builder.nodes
        finally:
            self._op._builder.nodes = outer
        for each in nodes:
            each.origin = node.origin
        places = [at for value in row if (at := self._made(value)) is not None]
        alone = [n for value in row if (n := self._alone(value)) is not None]
        self.moved.update(alone)
        self.behind.setdefault(max(places), []).extend([*alone, *nodes])
        return made


def _row(
    entries: Sequence[Value],
    keys: Sequence[Any],
    made: Sequence[int | None],
    fixed: Sequence[bool],
    start: int,
) -> tuple[int, int]:
    """How many entries each of how many rounds gives from there on; none of too few rounds."""
    for many in range(1, min(MOST_EACH, (len(entries) - start) // LEAST_ALIKE) + 1):
        count, last = 0, -1
        for place in range(start, len(entries) - many + 1, many):
            own = range(place, place + many)
            places = [at for each in own if (at := made[each]) is not None]
            begins = [
                at for each in own if fixed[each] and (at := made[each]) is not None
            ] or places
            alike = keys[place : place + many] == keys[start : start + many]
            if not alike or not places or min(begins) <= last:
                break
            count, last = count + 1, max(places)
        if count >= LEAST_ALIKE:
            return many, count
    return 0, 0


def _varies(values: Sequence[Value], axis: int) -> bool:
    sizes = [value.shape[axis] for value in values if value.shape]
    return not all(shapes.same(sizes[0], n) for n in sizes)

"""Joins, within each round, of the values that it appends to a list.

    for row in x:
        outs.append(row)           # one of these,
        for n in y[y > row[0]]:
            outs.append(row * n)   # and as many of these as there happen to be
    torch.stack(outs)

A list that gets several values in each round, one of them of varying length, has them in turn. They
are joined to one piece in the round, and the list consists of such pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from ...budget import BUDGET
from ...graph.blocks import inner_nodes
from ...graph.op import Op
from ...ir import shapes
from ...ir.node_reads import reads
from ...ir.value import Node, Value
from ...recording.rounds.loop_lengths import nodes_key
from .collected_lists import axis_of, in_places
from .stacked_sources import maps


def with_rows(op: Op, nodes: list[Node]) -> tuple[list[Node], list[int]]:
    """Join such values in their rounds; return the nodes and their places."""
    lists = [n for n in nodes if n.op == "Concat" and len(n.inputs) >= 2 * BUDGET.rounds.alike]
    rows = _Rows(op, nodes)
    for node in lists:
        rows.join(node)
    return in_places(
        [*([] if node in rows.moved else [node]), *rows.behind.get(place, ())]
        for place, node in enumerate(nodes)
    )


class _Rows:
    def __init__(self, op: Op, nodes: list[Node]) -> None:
        self._op, self._nodes = op, nodes
        self._at = {id(value): at for at, node in enumerate(nodes) for value in node.outputs}
        self._often = Counter(id(value) for node in nodes for _, value in reads(node))
        self.behind: dict[int, list[Node]] = {}  # by the place of a round's last value
        self.moved: set[Node] = set()  # nodes that were moved behind others

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
            # Rounds that begin a few entries later fail as well, unless they go on past the end.
            rest = place + max(many * (count - BUDGET.rounds.alike), 1)
            found += entries[place:rest]
            place = rest
        node.inputs[:] = found

    def _key(self, value: Value) -> Any:
        at = self._at.get(id(value))
        return id(value) if at is None else nodes_key(self._nodes[at])

    def _alone(self, value: Value) -> Node | None:
        """Return the node that makes a value, if it only moves axes, for the list alone."""
        at = self._at.get(id(value))
        if at is None or self._often[id(value)] > 1:
            return None
        node = self._nodes[at]
        return node if node.op != "Cast" and maps(node) else None

    def _made(self, value: Value) -> int | None:
        """Return the place where a value is made, or could be made."""
        alone = self._alone(value)
        source = value if alone is None else alone.inputs[0]
        return self._at.get(id(source))

    def _joined(self, row: Sequence[Value], node: Node) -> Value:
        with inner_nodes(self._op._builder, own_sizes=False) as nodes:
            made = self._op.Concat(*row, axis=node.attributes["axis"])
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
    """Return the entries of each round and the number of rounds from `start` on, or 0, 0."""
    most = min(BUDGET.rounds.entries, (len(entries) - start) // BUDGET.rounds.alike)
    for many in range(1, most + 1):
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
        if count >= BUDGET.rounds.alike:
            return many, count
    return 0, 0


def _varies(values: Sequence[Value], axis: int) -> bool:
    sizes = [value.shape[axis] for value in values if value.shape]
    return not all(shapes.same(sizes[0], n) for n in sizes)

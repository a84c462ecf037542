"""Numbers of loop rounds that follow from a size, and the lengths that the rounds make."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from ...budget import BUDGET
from ...ir import shapes
from ...ir.sizes import dims, size_lists
from ...ir.sizes.comparisons import Asked, Unforeseen
from ...ir.value import Absent, Constant, Node, Value
from ...tensor_bytes import same_bits
from .round_counts import Known
from .round_marks import RoundMarks, count_of, length_of, most_of

if TYPE_CHECKING:
    from ...graph.builder import Builder
    from ...ir.escapes import Escape
    from ...ir.input_grammar import Limits, NamedLimits
    from ..calls.arguments import Arguments
    from ..memory.live_tensors import Live


class Lengths:
    """Sizes of one recording that were asked for as numbers of rounds, by that number."""

    def __init__(self, builder: Builder, escapes: Mapping[tuple, Escape]) -> None:
        self._builder, self._escapes = builder, escapes
        self.marks = RoundMarks()
        self._places: dict[int, int] = {}  # place of a node, by its id
        self._seen = 0
        self._lists: dict[tuple[int, ...], list[Any]] = {}  # joined lists, by their items' ids

    def begin(self) -> None:
        self.marks.begins.add(len(self._builder.nodes))

    def ask(self, asked: Iterable[Asked]) -> None:
        self.marks.ask(asked, len(self._builder.nodes))

    def known(self) -> Known:
        return self.marks.known(self._escapes)

    def written(self, node: Node) -> None:
        """Set the size of an axis on which a node joins results of rounds, or cuts for them."""
        if node.op == "Slice":
            self._cut_out(node.outputs[0])
            return
        known = self.known()
        if known and node.op == "Concat":
            self._joined(known, node.inputs, node.attributes["axis"], node.outputs[0])
        elif len(node.outputs) in known:
            self._cut(node.outputs, node.attributes.get("axis", 0))

    def _joined(self, known: Known, parts: Sequence[Value | None], axis: int, made: Value) -> None:
        """Set the joined axis to the number of parts times their length, if that is the same."""
        if made.shape is None or self._grows(parts):
            return
        lengths = [part.shape[axis] if part is not None and part.shape else None for part in parts]
        sizes, each = list(made.shape), lengths[0]
        length = self._as_many(known, parts)
        if length is not None and each is not None:
            if all(n is not None and shapes.same(each, n) for n in lengths):
                sizes[axis] = length * each
            else:
                sizes[axis] = _own(made, axis)
            made.sized(sizes)

    def _grows(self, parts: Sequence[Value | None]) -> bool:
        """Return True if all parts but the last were joined before: each round adds one more."""
        entries = [
            part.node.inputs[0] if part is not None and _is_moved(part.node) else part
            for part in parts
        ]
        keys = tuple(map(id, entries))
        grows = keys[:-1] in self._lists and keys not in self._lists
        self._lists.setdefault(keys, entries)  # which stay, as they are known by their ids
        return grows

    def of_list(self, live: Live, held: list[Any]) -> Any:
        """Return the length of a list that got a tensor in each round; None for another list."""
        entries = [live.entries.get(id(each)) for each in held]
        if len(held) < BUDGET.rounds.alike_far or not all(
            entry is not None and entry() is each for entry, each in zip(entries, held)
        ):
            return None
        values = [entry.value for entry in entries if entry is not None]
        return self._as_many(self.known(), values)

    def repeats(self, given: Arguments) -> None:
        """Mark a list that got the same constant in each round as such."""
        items = given.args[0] if given.args else None
        if type(items) is not list or len(items) < BUDGET.rounds.alike_far or given.traced:
            return
        times = _as_many(self.known().before(len(self._builder.nodes)), len(items))
        if times is not None and all(map(same_constant, items, items[1:])):
            given.args = size_lists.Given(items, times, times), *given.args[1:]
            given.traced = True

    def _as_many(self, known: Known, parts: Sequence[Value | None]) -> Any:
        """Return the size, asked for before the first part, that explains their number."""
        nodes = self._builder.nodes
        for at in range(self._seen, len(nodes)):
            self._places[id(nodes[at])] = at
        self._seen = len(nodes)
        made = (self._places.get(id(part.node)) for part in parts if part is not None)
        first = next((at for at in made if at is not None), len(nodes))
        for many in self._in_each_round(parts):
            length = _as_many(known.before(first), len(parts) // many)
            if length is not None:
                return length * many
        return None

    @staticmethod
    def _cut(pieces: list[Value], axis: int) -> None:
        """Read the lengths of pieces in the graph if the last piece is shorter."""
        if any(piece.shape is None for piece in pieces):
            return
        lengths = [piece.shape[axis] for piece in pieces if piece.shape]
        if lengths[0] != 1 and not shapes.same(lengths[0], lengths[-1]):
            for piece in pieces:
                sizes = list(piece.shape or ())
                sizes[axis] = _own(piece, axis)
                piece.sized(sizes)

    @staticmethod
    def _cut_out(piece: Value) -> None:
        """Read the length of a piece in the graph if its formula is a minimum or a maximum."""
        for axis, size in enumerate(piece.shape or ()):
            if type(size) is not dims.Dim or size.poly.unsure:
                continue
            if any(atom.kind in ("min", "max") for mono in size.poly.terms for atom in mono):
                sizes = list(piece.shape or ())
                sizes[axis] = _own(piece, axis)
                piece.sized(sizes)

    def _in_each_round(self, parts: Sequence[Value | None]) -> Iterator[int]:
        """Yield the possible numbers of parts per round, if each round made equally many."""
        made = [
            self._places[id(value.node)]
            for value in parts
            if value is not None and id(value.node) in self._places
        ]
        if len(made) < max(BUDGET.rounds.alike_far, len(parts)):
            return
        steps = [b - a for a, b in zip(made, made[1:])]
        if len({*steps[1:]}) == 1 and steps[1] > 0:  # the first may be of before the rounds
            yield 1
        most = min(BUDGET.rounds.entries, len(parts) // BUDGET.rounds.alike_far)
        for many in range(2, most + 1):
            if len(parts) % many == 0 and steps[many:] == steps[:-many] and sum(steps[:many]) > 0:
                yield many


def _is_moved(node: Node | None) -> TypeGuard[Node]:
    return node is not None and node.op == "Unsqueeze"


def _as_many(known: Mapping[int, int], count: int) -> Any:
    """Return the size that explains a count: of rounds, or of rounds within rounds."""
    unlike = BUDGET.rounds.unlike
    for off in sorted(range(-unlike, unlike + 1), key=abs):
        if count - off in known:
            return known[count - off] + off
    for outer, length in known.items():
        if count % outer == 0 and count // outer in known:
            return length * known[count // outer]
    return None


def same_constant(a: Any, b: Any) -> bool:
    if not (isinstance(a, Constant) and isinstance(b, Constant)):
        return False
    if isinstance(a, Absent) or isinstance(b, Absent):
        return a is b or a.name == b.name != ""
    few, others = a.few_contents(), b.few_contents()
    if few is not None and others is not None:
        return few == others
    return same_bits(a.tensor, b.tensor)


def _own(value: Value, axis: int) -> Any:
    """Return a size that only refers to the value and axis that has it."""
    assert value.shape is not None
    return dims.Dim.leaf(value, axis, dims.plain(value.shape[axis]))


def at_enough_rounds(
    asked: list[Asked],
    sizes: Mapping[str, int],
    limits: NamedLimits,
    fixed: Iterable[int] = (),
) -> dict[str, int] | None:
    """The nearest sizes with enough rounds to recognize what the loops made.

    Lengths are told apart by the number of rounds, also from anything done a `fixed` number of
    times, whatever the sizes are.
    """
    words = sorted({word for each in asked for word in each.names() if word in sizes})
    found, used = dict(sizes), set(fixed)
    for word in words:
        mine = [each for each in asked if word in each.names()]
        try:
            found[word] = _size_with_rounds(mine, found, word, limits[word], used)
        except Unforeseen:
            return None
    named = (each for each in asked if each.names() & set(words))
    if any(
        count_of(each, found) < min(BUDGET.rounds.recorded_far, most_of(each)) for each in named
    ):
        return None
    unnamed = [n for each in asked if (n := _without_a_name(each)) and n not in used]
    times = _factor_for_rounds(min(unnamed)) if unnamed else 0
    for word in sizes.keys() - set(words) if times else ():
        # It may be what that size follows from.
        steps = range(times * sizes[word], BUDGET.sizes.larger_inputs)
        found[word] = next((n for n in steps if limits[word].hold(n)), sizes[word])
    return found if words or unnamed else None


def _size_with_rounds(
    asked: list[Asked], sizes: Mapping[str, int], word: str, limit: Limits, used: set[int]
) -> int:
    """Return the nearest size with enough rounds of these loops; add their numbers to `used`.

    Return the size as it is if no larger one has more: of range(t, u) there are fewer where t is
    larger. Raises `Unforeseen`.
    """
    size, most = sizes[word], [most_of(each) for each in asked]
    for n in (*range(size, 4 * size), *range(4 * size, BUDGET.sizes.larger_inputs, size)):
        if not limit.hold(n):
            continue
        there = {**sizes, word: n}
        counts = [count_of(each, there) for each in asked]
        least = BUDGET.rounds.recorded if n < 4 * size else BUDGET.rounds.recorded_far
        enough = all(count >= min(least, end) for count, end in zip(counts, most))
        if enough and _told_apart(asked, there, word, used):
            used.update(counts)
            return n
    return size


def _factor_for_rounds(rounds: int) -> int:
    """Return the factor of sizes for enough rounds, if they grow with them; 0 if it is large."""
    far = BUDGET.rounds.recorded_far + BUDGET.rounds.unlike
    factors = (-(-enough // rounds) for enough in (BUDGET.rounds.recorded, far))
    return next((n for n in factors if n <= BUDGET.rounds.unnamed_factor), 0)


def _without_a_name(asked: Asked) -> int:
    """Return the number of rounds if values decide it and no named size does; else 0."""
    length = length_of(asked)
    known = dims.is_dynamic(length) and asked.of_values() and not asked.names()
    return dims.plain(length) if known else 0


def _told_apart(asked: list[Asked], sizes: Mapping[str, int], word: str, used: set[int]) -> bool:
    """Return True if no two counts are close, unless their difference is always the same."""
    several = [{**sizes, word: sizes[word] * times} for times in (1, 2, 5)]
    counts = [[count_of(each, at) for at in several] for each in asked]
    unlike = BUDGET.rounds.unlike
    if any(abs(first - m) <= unlike for first, *_ in counts for m in used):
        return False
    gaps = ([n - m for n, m in zip(*pair)] for pair in itertools.combinations(counts, 2))
    return all(abs(first) > unlike or {*others} == {first} for first, *others in gaps)


def nodes_key(node: Node) -> Any:
    """Return a key that is equal for nodes of one line of the model."""
    origin = node.origin
    line = None if origin is None else (origin.target, origin.file, origin.line, origin.scope)
    return node.op, node.domain, line, len(node.inputs), len(node.outputs)

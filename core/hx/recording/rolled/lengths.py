"""How often the model went round, where a size said so, and what is as long as that."""

from __future__ import annotations

import itertools
from builtins import len, min, range  # their own: `world` hooks those of the model
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from ...graph.graph import same_bits
from ...sizes import dims, lists, shapes
from ...sizes.asked import Asked, At, Unforeseen
from ...sizes.polynomials import Poly
from ...tensors.values import Constant, Node, Value
from .known import Asking, Known
from .whiles import counted

if TYPE_CHECKING:
    from ...inputs.grammar import Limits
    from ...report import Escape
    from ..call import Arguments
    from ..recording import Recording

# Rounds that are recorded: few models have so many layers, heads or steps for another reason.
LEAST = 11
FAR = 6  # where so many need far larger inputs, which take as much more work in the proof
MOST = 4096  # the size at which there are so many
TIMES = 5  # as large inputs, at the most, where it is not known which size they follow from
OFF = 2  # rounds that may be unlike the others: the first, the last
MOST_EACH = 8  # entries of a list that one round gives
LEAST_ALIKE = 3  # rounds: of two, nobody can tell what counts them


class Lengths:
    """Of one recording: by how many rounds there were, the size that said so."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._places: dict[int, int] = {}  # by id of a node, where it is
        self._seen = 0
        self._lists: dict[tuple[int, ...], list[Any]] = {}  # what was joined
        self.begins: set[int] = set()  # where rounds begin, as far as known
        self._asked: dict[Asked, list[int]] = {}  # where in the nodes
        self._known: tuple[Any, Known] | None = None  # as much as was asked then
        self._lengths: dict[int, tuple[Asked, Any]] = {}  # by the id of what was asked

    def begin(self) -> None:
        self.begins.add(len(self._recording.builder.nodes))

    def ask(self, asked: Iterable[Asked]) -> None:
        for each in asked:
            self._asked.setdefault(each, []).append(len(self._recording.builder.nodes))

    def rearranged(self, before: list[Node]) -> None:
        """The nodes that were recorded are at other places now, or in the side of an If."""
        begun = {id(before[at].outputs[0]) for at in self.begins if at < len(before)}
        nodes = self._recording.builder.nodes
        self.begins = {at for at, node in enumerate(nodes) if id(node.outputs[0]) in begun}
        now = {id(node.outputs[0]): at for at, node in enumerate(nodes)}
        places = [len(nodes)]
        for node in reversed(before):
            places.append(now.get(id(node.outputs[0]), places[-1]))
        places.reverse()
        self._known = None
        self._asked = {asked: [places[at] for at in each] for asked, each in self._asked.items()}

    def known(self) -> Known:
        escapes = self._recording.escapes.values()
        asked = (sum(len(escape.asked) for escape in escapes), sum(map(len, self._asked.values())))
        if self._known is None or self._known[0] != asked:
            self._known = asked, self._known_now()
        return self._known[1]

    def _known_now(self) -> Known:
        found: list[Asking] = []
        for escape in self._recording.escapes.values():
            for asked in rounds_of([escape]):
                if id(asked) not in self._lengths:
                    self._lengths[id(asked)] = asked, _enough(asked)
                length = self._lengths[id(asked)][1]
                if length is not None:
                    at = self._asked.get(asked) or self._asked.get(next(iter(escape.asked)), [0])
                    found += [(place, dims.plain(length), length) for place in at]
        return Known(found)

    def written(self, node: Node) -> None:
        """Says how long it is what a node joins of what the rounds made, or cuts for them."""
        if node.op == "Slice":
            self._cut_out(node.outputs[0])
            return
        known = self.known()
        if known and node.op == "Concat":
            self._joined(known, node.inputs, node.attributes["axis"], node.outputs[0])
        elif len(node.outputs) in known:
            self._cut(node.outputs, node.attributes.get("axis", 0))

    def _joined(self, known: Known, parts: Sequence[Value | None], axis: int, made: Value) -> None:
        """It is as long as they are many, if they are equally long."""
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
        """Whether all but the last were joined before: in the next round there will be one more."""
        entries = [
            part.node.inputs[0] if part is not None and _is_moved(part.node) else part
            for part in parts
        ]
        keys = tuple(map(id, entries))
        grows = keys[:-1] in self._lists and keys not in self._lists
        self._lists.setdefault(keys, entries)  # which stay, as they are known by their ids
        return grows

    def of_list(self, held: list[Any]) -> Any:
        """How long a list is that got a tensor in each round; None for another list."""
        entries = [self._recording.live.entries.get(id(each)) for each in held]
        if len(held) < FAR - OFF or not all(
            entry is not None and entry() is each for entry, each in zip(entries, held)
        ):
            return None
        values = [entry.value for entry in entries if entry is not None]
        return self._as_many(self.known(), values)

    def of_pieces(self, held: Sequence[Any]) -> Any:
        """How many pieces there are that one call cut a tensor into; None of anything else."""
        entries = [self._recording.live.entries.get(id(each)) for each in held]
        nodes = {id(entry.value.node) for entry in entries if entry is not None}
        if len(held) < FAR - OFF or len(nodes) > 1 or not all(entries):
            return None
        return self.known().before(len(self._recording.builder.nodes)).get(len(held))

    def repeats(self, given: Arguments) -> None:
        """Lets a list that got the same constant in each round be known as such."""
        items = given.args[0] if given.args else None
        if type(items) is not list or len(items) < FAR - OFF or given.traced:
            return
        times = _as_many(self.known().before(len(self._recording.builder.nodes)), len(items))
        if times is not None and all(map(same_constant, items, items[1:])):
            given.args = lists.Given(items, times, times), *given.args[1:]
            given.traced = True

    def _as_many(self, known: Known, parts: Sequence[Value | None]) -> Any:
        """What says that they are so many: it was asked before the first of them was made."""
        nodes = self._recording.builder.nodes
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
        """Where the last piece is shorter, what the model asks of each is asked in the graph."""
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
        """Where it is shorter at an end, as only the formula of each tells, it is asked of it."""
        for axis, size in enumerate(piece.shape or ()):
            if type(size) is not dims.Dim or size.poly.unsure:
                continue
            if any(atom.kind in ("min", "max") for mono in size.poly.terms for atom in mono):
                sizes = list(piece.shape or ())
                sizes[axis] = _own(piece, axis)
                piece.sized(sizes)

    def _in_each_round(self, parts: Sequence[Value | None]) -> Iterator[int]:
        """How many of them each round may have made, if as many in each."""
        made = [
            self._places[id(value.node)]
            for value in parts
            if value is not None and id(value.node) in self._places
        ]
        if len(made) < max(FAR - OFF, len(parts)):
            return
        steps = [b - a for a, b in zip(made, made[1:])]
        if len({*steps[1:]}) == 1 and steps[1] > 0:  # the first may be of before the rounds
            yield 1
        for many in range(2, min(MOST_EACH, len(parts) // (FAR - OFF)) + 1):
            if len(parts) % many == 0 and steps[many:] == steps[:-many] and sum(steps[:many]) > 0:
                yield many


def _is_moved(node: Node | None) -> TypeGuard[Node]:
    return node is not None and node.op == "Unsqueeze"


def _enough(asked: Asked) -> Any:
    """How many rounds that is, where there were enough to be seen; else None."""
    length = length_of(asked)
    # What data say, as which experts a token goes to, may never be more.
    least = min(FAR, _most_of(asked)) if asked.names() else LEAST_ALIKE
    return length if dims.is_dynamic(length) and dims.plain(length) >= least else None


def _most_of(asked: Asked) -> int:
    """How many rounds there are at the most, as far as the largest sizes say, if those may be enough."""
    try:
        most = _count(asked, asked.as_large_as(MOST))
    except (Unforeseen, ArithmeticError, ValueError):  # 2**n of them, or those of a square root
        return LEAST
    return most if most >= FAR - OFF else LEAST


def _as_many(known: Mapping[int, int], count: int) -> Any:
    """What says that there are so many: how many rounds there were, or rounds in each of those."""
    for off in sorted(range(-OFF, OFF + 1), key=abs):
        if count - off in known:
            return known[count - off] + off
    for outer, length in known.items():
        if count % outer == 0 and count // outer in known:
            return length * known[count // outer]
    return None


def same_constant(a: Any, b: Any) -> bool:
    if not (isinstance(a, Constant) and isinstance(b, Constant)):
        return False
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and same_bits(a.tensor, b.tensor))


def _own(value: Value, axis: int) -> Any:
    """A size that is known by the value alone."""
    assert value.shape is not None
    return dims.Dim.leaf(value, axis, dims.plain(value.shape[axis]))


def rounds_of(escapes: Iterable[Escape]) -> Iterator[Asked]:
    for escape in escapes:
        if escape.kind in ("range", "rounds"):
            yield from escape.asked
        elif escape.kind == "branch" and (found := counted(escape.asked)) is not None:
            yield found


def length_of(asked: Asked) -> Any:
    """How many rounds that is; None where it is not known."""
    args = [dims.dim(x) if isinstance(x, Poly) else x for x in asked.of]
    if asked.ask is range:
        return lists.length_of(*args)
    return args[0] if asked.ask is int else None


def at_enough_rounds(
    asked: list[Asked],
    sizes: Mapping[str, int],
    limits: Mapping[str, Limits],
    fixed: Iterable[int] = (),
) -> dict[str, int] | None:
    """The nearest sizes at which there are so many rounds that it is seen what goes round.

    Lengths are told from each other by how many rounds there are, and from what is done `fixed`
    numbers of times, whatever the sizes are.
    """
    words = sorted({word for each in asked for word in each.names() if word in sizes})
    wanted, used = dict(sizes), set(fixed)
    for word in words:
        limit = limits.get(word)
        mine = [each for each in asked if word in each.names()]
        most = [_most_of(each) for each in mine]
        for n in (*range(sizes[word], 4 * sizes[word]), *range(4 * sizes[word], MOST, sizes[word])):
            if limit is not None and not limit.hold(n):
                continue
            wanted[word] = n
            try:
                counts = [_count(each, wanted) for each in mine]
            except Unforeseen:
                return None
            least = LEAST if n < 4 * sizes[word] else FAR
            enough = all(count >= min(least, end) for count, end in zip(counts, most))
            if enough and _told_apart(mine, wanted, word, used):
                used.update(counts)
                break
        else:  # of range(t, u) there are fewer where t is larger
            wanted[word] = sizes[word]
    if any(
        _count(each, wanted) < min(FAR, _most_of(each))
        for each in asked
        if each.names() & set(words)
    ):
        return None
    unnamed = [n for each in asked if (n := _without_a_name(each)) and n not in used]
    fewest = min(unnamed, default=LEAST)
    times = next((n for n in (-(-LEAST // fewest), -(-(FAR + OFF) // fewest)) if n <= TIMES), LEAST)
    for word in sizes.keys() - set(words) if unnamed and times <= TIMES else ():
        limit = limits.get(word)  # it may be what that size follows from
        steps = range(times * sizes[word], MOST)
        wanted[word] = next((n for n in steps if limit is None or limit.hold(n)), sizes[word])
    return wanted if words or unnamed else None


def _without_a_name(asked: Asked) -> int:
    """How many rounds there were where no name says so, but what is in the graph; else 0."""
    length = length_of(asked)
    known = dims.is_dynamic(length) and asked.of_values() and not asked.names()
    return dims.plain(length) if known else 0


def _told_apart(asked: list[Asked], sizes: Mapping[str, int], word: str, used: set[int]) -> bool:
    """Whether no two of them are nearly alike, but those that are so at every size."""
    several = [{**sizes, word: sizes[word] * times} for times in (1, 2, 5)]
    counts = [[_count(each, at) for at in several] for each in asked]
    if any(abs(first - m) <= OFF for first, *_ in counts for m in used):
        return False
    gaps = ([n - m for n, m in zip(*pair)] for pair in itertools.combinations(counts, 2))
    return all(abs(first) > OFF or {*others} == {first} for first, *others in gaps)


def _count(asked: Asked, sizes: Mapping[str, int]) -> int:
    found = asked.answer(At(sizes))
    return len(found) if isinstance(found, range) else int(found)


def nodes_key(node: Node) -> Any:
    """What is the same for nodes of one line of the model."""
    origin = node.origin
    line = None if origin is None else (origin.target, origin.file, origin.line, origin.scope)
    return node.op, node.domain, line, len(node.inputs), len(node.outputs)

"""The nodes between the loops: they stay as they are, but for what they read.

What the rounds of a loop made is one value behind it, of which each is an element. So what cuts
something into a piece for each round, or joins what there is of each, goes away, and what reads one
of many takes it out of them.
"""

from __future__ import annotations

import operator
from builtins import len  # their own: `world` hooks those of the model
from collections.abc import Iterable
from typing import Any, cast

import torch

from ...graph.op import Op
from ...sizes import dims, shape_rules, shapes
from ...sizes.asked import At
from ...tensors.values import Body, Node, Value
from ..both.rows import reads, reads_of
from ..capture import Capture
from .known import Known
from .later import ENDS, middle
from .lengths import LEAST_ALIKE, MOST_EACH, OFF
from .listed import Part, Run, axis_of, grouped, is_list, joined, together
from .ragged import laid
from .sources import STACK, Pieces, Source, Stacked, Unlike


class Passing:
    def __init__(self, captured: Capture, known: Known) -> None:
        self._captured, self._known = captured, known
        self._builder = captured.recording.builder
        self._op = Op(self._builder)
        self._elements: dict[int, tuple[Source, int]] = {}
        self._instead: dict[int, Value] = {}
        self._held: list[Any] = []  # what is known by its id stays
        self._sizes: list[Any] = []  # that say how many rounds there are
        self._later: set[Node] = set()  # that are cut in a later pass
        self._places: list[int] = []  # where each of the nodes is now, or what is in its place
        self._needed: set[Node] = set()  # what the results follow from
        self._made: dict[int, int] = {}  # by id of a value, where what makes it is
        self._gone: set[int] = set()  # ids of values that nothing follows from
        self._own: set[int] = set()  # ids of values that are as large as one round makes them

    def _pass(self, nodes: Iterable[Node]) -> None:
        """Nodes that stay as they are, but for what they read."""
        for node in nodes:
            self._places.append(len(self._builder.nodes))
            self._builder.origin = node.origin
            try:
                if self._cuts(node) or (is_list(node) and self._joins(node)):
                    continue
                read = [value for _, value in reads(node)]
                if node.op == "If":
                    self._read_in_sides(node)
                for (held, place), value in list(reads(node)):
                    held[place] = self._read(value)
            except Unlike:
                if node in self._needed:
                    raise
                self._gone.update(map(id, node.outputs))
            else:
                self._builder.nodes.append(node)
                if any(map(self._is_sized_anew, read)):
                    self._size_anew(node)

    def _is_sized_anew(self, value: Value) -> bool:
        """Whether it may be as large as one round makes it, or as all of them do."""
        return any(id(value) in held for held in (self._elements, self._own, self._instead))

    def _read_in_sides(self, node: Node) -> None:
        """What one side of an If reads of many is taken out of them there: on the other one, maybe,
        there are none."""
        outer = self._builder.nodes
        for body in node.attributes.values():
            if not isinstance(body, Body):
                continue
            self._builder.nodes = []
            kept = self._builder.sizes.scope(empty=False)
            try:
                for (held, place), value in list(reads_of(body)):
                    if id(value) in self._elements:
                        held[place] = self._read(value, known=True)
                body.nodes[:0] = self._builder.nodes
            finally:
                self._builder.nodes = outer
                self._builder.sizes.restore(kept)

    def _size_anew(self, node: Node) -> None:
        """What follows from one round alone was as large as that of the recording."""
        known = shape_rules.infer(node.op, node.inputs, node.attributes, len(node.outputs))
        for value, now in zip(node.outputs, known):
            sizes = value.shape if now is None else now
            if value.shape is None or sizes is None or node.domain:
                continue
            anew = [
                dims.Dim.leaf(value, axis, dims.plain(value.shape[axis]))
                if n is shapes.RUN_TIME or (now is None and dims.is_dynamic(n))
                else n
                for axis, n in enumerate(sizes)
            ]
            if not all(map(shapes.same, anew, value.shape)):
                value.sized(anew)
                self._own.add(id(value))

    def _is_cut(self, node: Node) -> bool:
        """Whether it makes as many as the model goes round of what may be longer."""
        if node.op != "Split" or len(node.outputs) not in self._known:
            return False
        whole, shape = node.inputs[0], node.outputs[0].shape
        if whole is None or shape is None:
            return False
        return dims.is_dynamic(whole.size(node.attributes.get("axis", 0)))

    def _cuts(self, node: Node) -> bool:
        """Whether a Split gives a piece for each round."""
        if node in self._later or not self._is_cut(node):
            return False
        many, axis = len(node.outputs), node.attributes.get("axis", 0)
        whole, shape = cast(Value, node.inputs[0]), node.outputs[0].shape or ()
        pieces: Source
        if id(node.inputs[1]) in self._instead:
            lengths = self._instead[id(node.inputs[1])]
            length = self._known.of(many, lengths.size(0), len(self._places))
            pieces = laid(self._op, self._read(whole), lengths, axis, node.outputs, length)
        else:
            try:
                each, *others = shapes.elements(node.inputs[1])
            except shapes.Unknown:
                return False
            if dims.is_dynamic(each) or any(n != each for n in others[:-1]):
                return False
            size = whole.size(axis)
            length = self._known.of(many, (size + (each - 1)) // each, len(self._places))
            shape = (*shape[:axis], each, *shape[axis + 1 :])
            shorter = each != 1 and not shapes.same(others[-1], each)
            pieces = Pieces(many, shape, self._read(whole), axis, shorter)
        self._stacks(pieces, node.outputs)
        self._sizes.append(length)
        return True

    def _stacks(self, source: Source, values: list[Value]) -> None:
        self._held += values
        self._elements.update((id(value), (source, k)) for k, value in enumerate(values))

    def _joins(self, node: Node) -> bool:
        """Whether it joins what there is one of for each round; a stack is written again."""
        parts = grouped(cast(list[Value], node.inputs), self._elements)
        if node.op != STACK and not any(isinstance(part, Part) for part in parts):
            return False
        axis = axis_of(node)
        values: list[Value] = []
        alone: list[Value] = []
        for before, part, behind in zip([None, *parts], parts, [*parts[1:], None]):
            if isinstance(part, Part):
                often = None if part.runs else self._so_often(before, part, behind)
                values.append(self._part(part, axis, node.op == STACK, often))
                continue
            alone.append(self._read(part))
            if behind is None or isinstance(behind, Part):  # together: they may be joined later
                values += self._alone(node, alone)
                alone = []
        made = self._op.Concat(*values, axis=axis) if len(values) > 1 else values[0]
        self._instead[id(node.outputs[0])] = made
        self._held.append(node.outputs[0])
        return True

    def _alone(self, node: Node, entries: list[Value]) -> list[Value]:
        """What is not of many rounds; those of a stack so that it is seen as one again."""
        if node.op == STACK and len(entries) < LEAST_ALIKE:
            return [joined(self._op, node, [entry]) for entry in entries]
        return [joined(self._op, node, entries)] if node.op == STACK else entries

    def _part(self, part: Part, axis: int, stacks: bool, often: Any = None) -> Value:
        return together(self._op, part, axis, stacks, often, self._read)

    def _so_often(
        self, before: Part | Value | None, part: Part, behind: Part | Value | None
    ) -> Any:
        """What said how often the same is there again and again: it was asked behind what that is
        and what comes before it in the list, and before what comes next, if not for all of them."""
        begun = [at for each in (before, part) if (at := self._made_at(each, -1)) is not None]
        end = self._made_at(behind, 0)
        begin = max(begun, default=None)
        # Once in each round, or a few times more; or several times in each.
        offs = sorted(range(-OFF, OFF + 1), key=abs)
        for each, off in (*((1, off) for off in offs), *((n, 0) for n in range(2, MOST_EACH + 1))):
            count, left = divmod(part.count - off, each)
            length = None if left else self._known.alone(count, begin, end)
            if length is not None:
                self._sizes.append(length)
                return length * each + off
        raise Unlike

    def _made_at(self, entry: Part | Value | None, place: int) -> int | None:
        """Where the node is that makes an entry of a list; of a part, the first or the last."""
        if isinstance(entry, Part):
            each = entry.each[place]
            if isinstance(each, Run):
                return None
            entry = each
        return self._made.get(id(entry))

    def _read(self, value: Value, known: bool = False) -> Value:
        """What is to be read for a value that a node made which is no longer there; `known` to be so
        where it is read."""
        if id(value) in self._gone:
            raise Unlike
        if id(value) in self._instead:
            return self._instead[id(value)]
        found = self._elements.get(id(value))
        if found is None:
            return value
        source, k = found
        if k in middle(source.many):
            raise Unlike
        index = k if k < ENDS else k - source.many
        if isinstance(source, Stacked) and not known:
            self._require_some(source.length, 1 if k in (0, source.many - 1) else 2)
        return source.at(self._op, self._op.constant(index, torch.int64))

    def _require_some(self, length: Any, least: int = 1) -> None:
        """Notes that there are so many rounds: where there are none, nobody knows what is read."""
        asked = dims.asked(operator.ge, length, least)
        smallest = At(dict.fromkeys(asked.names(), 1))
        if not least and asked.names() and asked.heard(smallest):
            return  # there are, wherever there is anything
        self._captured.prepared.begun |= not asked.names()
        origin = self._builder.origin
        where = origin.where if origin is not None and origin.file else None
        told = f"{dims.spelled(length)} >= {least}"
        self._captured.recording.escape("branch", told, where, [asked])

"""Nodes between the loops: they stay as they are, except for what they read.

Behind a loop, what its rounds made is one value with an element for each round. So a node that cuts
a value into a piece for each round, or joins one value of each, goes away. A node that reads a
value of one round takes it as an element.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, cast

import torch

from ...budget import BUDGET
from ...errors import Where
from ...graph.blocks import inner_nodes
from ...graph.builder import Builder
from ...graph.op import Op
from ...ir import shape_rules, shapes
from ...ir.escapes import Escape, noted
from ...ir.node_reads import reads, reads_of
from ...ir.sizes import dims
from ...ir.sizes.comparisons import At
from ...ir.value import Node, Value
from ...recording.rounds.round_counts import Known
from ...recording.trace import Trace
from .collected_lists import Part, Run, axis_of, grouped, is_list, joined, together
from .outer_values import middle
from .ragged_rounds import laid
from .stacked_sources import STACK, Pieces, RoundsDiffer, Source, Stacked


class NodesBetween:
    """Writes the nodes between loops into a graph in which loops replace rounds."""

    def __init__(self, trace: Trace, known: Known) -> None:
        self._trace, self._known = trace, known
        self._builder = Builder.over(trace.graph)
        self._op = Op(self._builder)
        self._elements: dict[int, tuple[Source, int]] = {}
        self._instead: dict[int, Value] = {}
        self._held: list[Any] = []  # keeps alive what is known by its id
        self._sizes: list[Any] = []  # numbers of rounds, in the graph
        self._later: set[Node] = set()  # Splits that a later pass replaces
        self._places: list[int] = []  # of each node, its place now, or that of its replacement
        self._needed: set[Node] = set()  # nodes that the results follow from
        self._made: dict[int, int] = {}  # id of a value -> place of the node that makes it
        self._dropped: set[int] = set()  # ids of values that were dropped
        self._own: set[int] = set()  # ids of values whose sizes were inferred again

    def _keep(self, nodes: Iterable[Node]) -> None:
        """Keep nodes, but replace what they read; leave out those that loops made superfluous."""
        for node in nodes:
            self._places.append(len(self._builder.nodes))
            self._builder.origin = node.origin
            try:
                if self._replace_cut(node) or (is_list(node) and self._replace_join(node)):
                    continue
                read = [value for _, value in reads(node)]
                if node.op == "If":
                    self._read_in_sides(node)
                for (held, place), value in list(reads(node)):
                    held[place] = self._read(value)
            except RoundsDiffer:
                if node in self._needed:
                    raise
                self._dropped.update(map(id, node.outputs))
            else:
                self._builder.nodes.append(node)
                if any(map(self._may_change_sizes, read)):
                    self._infer_sizes_again(node)

    def _may_change_sizes(self, value: Value) -> bool:
        """Return True if a value may have other sizes than in the recording."""
        return any(id(value) in held for held in (self._elements, self._own, self._instead))

    def _read_in_sides(self, node: Node) -> None:
        """Take the elements that one side of an If reads inside that side: on the other side, there
        may be none.
        """
        for body in node.bodies:
            with inner_nodes(self._builder) as first:
                for (held, place), value in list(reads_of(body)):
                    if id(value) in self._elements:
                        held[place] = self._read(value, known=True)
            body.nodes[:0] = first

    def _infer_sizes_again(self, node: Node) -> None:
        """Infer the output sizes of a node again: the recorded ones are those of one round."""
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
        """Return True if a node cuts a value of dynamic size into as many pieces as rounds."""
        if node.op != "Split" or len(node.outputs) not in self._known:
            return False
        whole, shape = node.inputs[0], node.outputs[0].shape
        if whole is None or shape is None:
            return False
        return dims.is_dynamic(whole.size(node.attributes.get("axis", 0)))

    def _replace_cut(self, node: Node) -> bool:
        """Replace a Split that gives a piece for each round; return True if this was done."""
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
        self._note_elements(pieces, node.outputs)
        if node in self._needed:  # else nothing in the graph is as long
            self._sizes.append(length)
        return True

    def _note_elements(self, source: Source, values: list[Value]) -> None:
        self._held += values
        self._elements.update((id(value), (source, k)) for k, value in enumerate(values))

    def _replace_join(self, node: Node) -> bool:
        """Replace a node that joins one value of each round, or a stack; return True if done."""
        parts = grouped(cast(list[Value], node.inputs), self._elements)
        if node.op != STACK and not any(isinstance(part, Part) for part in parts):
            return False
        axis = axis_of(node)
        values: list[Value] = []
        alone: list[Value] = []
        for before, part, behind in zip([None, *parts], parts, [*parts[1:], None]):
            if isinstance(part, Part):
                often = None if part.runs else self._times_in_list(before, part, behind)
                values.append(self._join_part(part, axis, node.op == STACK, often))
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
        """Return entries that are not of many rounds, to be joined; a long stack stays one."""
        if node.op == STACK and len(entries) < BUDGET.rounds.alike:
            return [joined(self._op, node, [entry]) for entry in entries]
        return [joined(self._op, node, entries)] if node.op == STACK else entries

    def _join_part(self, part: Part, axis: int, stacks: bool, often: Any = None) -> Value:
        return together(self._op, part, axis, stacks, often, self._read)

    def _times_in_list(
        self, before: Part | Value | None, part: Part, behind: Part | Value | None
    ) -> Any:
        """Return how often one value is repeated in a list, as a size in the graph.

        The size was asked for after the value and the entry before it, and before the next entry.
        If several sizes, or none, were asked for there, it is the only one of this number anywhere.
        """
        begun = [at for each in (before, part) if (at := self._made_at(each, -1)) is not None]
        end = self._made_at(behind, 0)
        begin = max(begun, default=None)
        # One in each round, and a few more or fewer; or several in each.
        unlike, several = BUDGET.rounds.unlike, range(2, BUDGET.rounds.entries + 1)
        offs = sorted(range(-unlike, unlike + 1), key=abs)
        for each, off in (*((1, off) for off in offs), *((n, 0) for n in several)):
            count, left = divmod(part.count - off, each)
            length = None if left else self._known.alone(count, begin, end)
            if length is not None:
                self._sizes.append(length)
                return length * each + off
        raise RoundsDiffer

    def _made_at(self, entry: Part | Value | None, place: int) -> int | None:
        """Return the place of the node that makes an entry; for a part, its first or last value."""
        if isinstance(entry, Part):
            each = entry.each[place]
            if isinstance(each, Run):
                return None
            entry = each
        return self._made.get(id(entry))

    def _read(self, value: Value, known: bool = False) -> Value:
        """Return what to read for a value whose node is gone; `known` if the value surely exists
        there.
        """
        if id(value) in self._dropped:
            raise RoundsDiffer
        if id(value) in self._instead:
            return self._instead[id(value)]
        found = self._elements.get(id(value))
        if found is None:
            return value
        source, k = found
        if k in middle(source.many):
            raise RoundsDiffer
        index = k if k < BUDGET.rounds.unlike else k - source.many
        if isinstance(source, Stacked) and not known:
            self._require_some(source.length, 1 if k in (0, source.many - 1) else 2)
        return source.at(self._op, self._op.constant(index, torch.int64))

    def _require_some(self, length: Any, least: int = 1) -> None:
        """Note that at least so many rounds are needed: without them, the value does not exist."""
        asked = dims.asked(operator.ge, length, least)
        smallest = At(dict.fromkeys(asked.names(), 1))
        if not least and asked.names() and asked.answer_if_known(smallest):
            return  # true at sizes of 1, so wherever there is anything
        self._trace.merged.may_run_zero_times |= not asked.names()
        origin = self._builder.origin
        where = origin.where if origin is not None and origin.file else Where("", 0)
        told = f"{dims.spelled(length)} >= {least}"
        noted(self._trace.escapes, Escape("branch", where, told)).asked[asked] = None

"""Rows: one recording, or several joined, as nodes with the model's questions between them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import Unsupported
from ...ir.node_reads import reads
from ...ir.recipe import Line
from ...ir.value import Node, Value
from ...recording.reads.questions import Question
from ...recording.trace import Trace
from ..copied_trace import copied_node


@dataclass(eq=False)
class Join:
    """A value that either side of an `If` gives."""

    value: Value
    of: dict[bool, Value]


@dataclass(eq=False)
class Split:
    """A question with both answers, and the items that follow each answer."""

    question: Question
    sides: dict[bool, list[Any]]  # Nodes, Questions and Splits
    joins: list[Join] = field(default_factory=list)


Answers = tuple[tuple[Line, bool], ...]
Side = tuple[int, bool]  # the id of a question, and an answer
Items = list[Any]  # Nodes, Questions, Splits
Place = tuple[Any, Any]  # a container and an index or key, or an object and an attribute


@dataclass
class Row:
    """One recording, or several that were joined."""

    items: Items
    outputs: list[Value]
    inputs: dict[str, Value]
    answers: Answers
    opset: int = 0


def row_of(trace: Trace) -> Row:
    """Return the row of a recording, made of copies: to join rows changes them."""
    nodes, items, at = [*map(copied_node, trace.nodes)], list[Any](), 0
    for question in trace.questions:
        items += nodes[at : question.at]
        at = question.at
        items.append(dataclasses.replace(question))
    items += nodes[at:]
    outputs = [value for _, value in trace.outputs]
    return Row(items, outputs, dict(trace.inputs), answers_of(trace), trace.graph.dialect.opset)


def answers_of(trace: Trace) -> Answers:
    return tuple((q.line, q.yes) for q in trace.questions)


def common(one: Answers, other: Answers) -> int:
    """Count the answers that both begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))


def stands(row: Row) -> bool:
    """Return True if every value is computed before it is read, in a scope visible to its reader."""
    made = {id(value) for node in nodes_of(row.items) for value in node.outputs}
    made |= {id(join.value) for split in splits_of(row.items) for join in split.joins}
    known = _known_behind(row.items, frozenset(), made)
    return known is not None and all(_seen(value, known, made) for value in row.outputs)


def _known_behind(items: Items, known: frozenset[int], made: set[int]) -> frozenset[int] | None:
    """Return the values visible behind some items; None if an item reads one it cannot see."""
    for item in items:
        if isinstance(item, Node):
            if not all(_seen(value, known, made) for _, value in reads(item)):
                return None
            known |= {id(value) for value in item.outputs}
        elif isinstance(item, Split):
            if not _seen(item.question.value, known, made):
                return None
            for yes, side in item.sides.items():
                inside = _known_behind(side, known, made)
                results = [join.of[yes] for join in item.joins]
                if inside is None or not all(_seen(value, inside, made) for value in results):
                    return None
            known |= {id(join.value) for join in item.joins}
    return known


def _seen(value: Value | None, known: frozenset[int], made: set[int]) -> bool:
    return value is None or id(value) not in made or id(value) in known


def sides_along(items: Items, way: Answers) -> frozenset[Side] | None:
    """Return the sides that a way goes through; None if it is not a way of this row."""
    found: set[Side] = set()
    left = iter(way)

    def follow(items: Items) -> bool:
        for item in items:
            if isinstance(item, Node):
                continue
            question = item.question if isinstance(item, Split) else item
            line, yes = next(left, (None, None))
            if line != question.line or yes is None:
                return False
            if isinstance(item, Split):
                found.add((id(question), yes))
                if not follow(item.sides[yes]):
                    return False
            elif yes is not item.yes:
                return False
        return True

    return frozenset(found) if follow(items) and next(left, None) is None else None


def made_in(items: Items) -> Iterator[Value]:
    """Yield the values made in a side of an `If`."""
    for node in nodes_of(items):
        yield from node.outputs
    for split in splits_of(items):
        yield from (join.value for join in split.joins)


_APART = "the ways that the model goes do not become one graph"


class TooManyWays(Unsupported):
    """The ways that the model goes are more than are recorded."""


def apart() -> Unsupported:
    return Unsupported(_APART)


def too_many() -> TooManyWays:
    return TooManyWays(_APART)


def questions_of(items: Items) -> Iterator[Question]:
    """Yield the questions to which only one answer is in the graph so far."""
    return (item for item in _all_of(items) if isinstance(item, Question))


def splits_of(items: Items) -> Iterator[Split]:
    return (item for item in _all_of(items) if isinstance(item, Split))


def nodes_of(items: Items) -> Iterator[Node]:
    return (item for item in _all_of(items) if isinstance(item, Node))


def _all_of(items: Items) -> Iterator[Any]:
    """Yield the items of a row and those in its sides."""
    for item in items:
        yield item
        if isinstance(item, Split):
            for side in item.sides.values():
                yield from _all_of(side)

"""A recording as a row of nodes, with the questions of the model between them; or several, joined."""

from __future__ import annotations

import dataclasses
import itertools
from builtins import len  # its own: `world` hooks that of the model
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import Unsupported
from ...tensors.values import Node, Value
from ..capture import Capture
from ..questions import Question

MOST = 32  # recordings that become one graph


@dataclass(eq=False)
class Join:
    """A value that came from either side."""

    value: Value
    of: dict[bool, Value]


@dataclass(eq=False)
class Split:
    """A question that was answered both ways, and what follows from each answer."""

    question: Question
    sides: dict[bool, list[Any]]  # Nodes, Questions and Splits
    joins: list[Join] = field(default_factory=list)


Line = tuple[str, int]
Answers = tuple[tuple[Line, bool], ...]
Items = list[Any]  # Nodes, Questions, Splits
Place = tuple[Any, Any]  # a list or dict and what is in it, or an object and an attribute of it


@dataclass
class Row:
    """One recording, or several that were joined."""

    items: Items
    outputs: list[Value]
    inputs: dict[str, Value]
    answers: Answers

    def as_recorded(self) -> Row:
        """One recording again, of its own: rows are changed as they are joined."""
        items = [
            _like(item) if isinstance(item, Node) else dataclasses.replace(item)
            for item in self.items
        ]
        return Row(items, list(self.outputs), self.inputs, self.answers)


def row_of(captured: Capture) -> Row:
    recording = captured.recording
    outputs = [recording.as_output(value) for _, value in captured.outputs]
    nodes, items, at = recording.builder.nodes, list[Any](), 0
    for question in recording.questions.each:
        items += nodes[at : question.at]
        at = question.at
        items.append(question)
    items += nodes[at:]
    return Row(items, outputs, dict(captured.inputs), answers_of(captured))


def _like(node: Node) -> Node:
    return Node(node.op, node.domain, list(node.inputs), node.outputs, node.attributes, node.origin)


def answers_of(captured: Capture) -> Answers:
    return tuple((q.line, q.yes) for q in captured.recording.questions.each)


def common(one: Answers, other: Answers) -> int:
    """How many answers they begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))


def ways_of(items: Items) -> list[Answers]:
    """The answers along each way through a row."""
    ways: list[Answers] = [()]
    for item in items:
        if isinstance(item, Question):
            ways = [(*way, (item.line, item.yes)) for way in ways]
        elif isinstance(item, Split):
            ways = [
                (*way, (item.question.line, yes), *rest)
                for way in ways
                for yes, side in item.sides.items()
                for rest in ways_of(side)
            ]
            if len(ways) > MOST:
                raise apart()
    return ways


def apart() -> Unsupported:
    return Unsupported("the ways that the model goes do not become one graph")


def questions_of(items: Items) -> Iterator[Question]:
    """Those that were answered in one way."""
    return (item for item in _all_of(items) if isinstance(item, Question))


def splits_of(items: Items) -> Iterator[Split]:
    return (item for item in _all_of(items) if isinstance(item, Split))


def nodes_of(items: Items) -> Iterator[Node]:
    return (item for item in _all_of(items) if isinstance(item, Node))


def _all_of(items: Items) -> Iterator[Any]:
    """What is in a row, and in the sides of what is in it."""
    for item in items:
        yield item
        if isinstance(item, Split):
            for side in item.sides.values():
                yield from _all_of(side)

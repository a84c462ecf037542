"""Body of a loop: one round, with what counts the rounds and what each reads of a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch

from ...graph.blocks import block
from ...graph.op import Op
from ...ir.value import Body, Node, Value
from . import collected_lists
from .round_inputs import Carried, Counting, Element, Local, Made, Rounds, Same, shared
from .stacked_sources import STACK


def body_of(
    op: Op,
    rounds: Rounds,
    needed: set[int],
    turn: Value,
    carried: dict[Carried, Value],
    times: Value | None,
) -> dict[Made, Value]:
    """Write one round; return what each of its nodes makes."""
    builder = op._builder
    made: dict[Made, Value] = {}
    known: dict[Any, Value] = {}

    def given(read: Any) -> Value | None:
        if read is None:
            return None
        if isinstance(read, Same):
            return read.value
        if isinstance(read, Local):
            return made[read.made]
        if isinstance(read, Carried):
            return carried[read]
        key = _key(read)
        if key not in known:
            known[key] = counting(op, read, turn, times)
        return known[key]

    for at in sorted(needed):
        node = rounds.body[at]
        builder.origin = node.origin
        read = [given(each) for each in rounds.reads[at]]
        inputs, within = read[: len(node.inputs)], read[len(node.inputs) :]
        if node.op == STACK:
            made[at, 0] = collected_lists.joined(op, node, cast(list[Value], inputs))
            shared(made[at, 0], rounds.all_of((at, 0)))
            continue
        attributes = node.attributes
        if within:
            around = iter(within)
            attributes = {k: _copied(builder, v, around, {}) for k, v in attributes.items()}
        outputs = [builder.value(value.dtype, None) for value in node.outputs]
        for place, value in enumerate(outputs):
            shared(value, rounds.all_of((at, place)))
        builder.enter(Node(node.op, node.domain, inputs, outputs, attributes, node.origin))
        made.update(((at, place), value) for place, value in enumerate(outputs))
    return made


def _copied(
    builder: Any, attribute: Any, around: Iterator[Value | None], own: dict[int, Any]
) -> Any:
    """Copy a body with these outer values, in the order in which it reads any.

    They are matched by place: one value may be read at several places, and not in other rounds.
    """
    if not isinstance(attribute, Body):
        return attribute
    now = dict(own)

    def again(value: Value) -> Value:
        made = now[id(value)] = builder.value(value.dtype, value.shape)
        return made

    def given(value: Value) -> Value | None:
        return now[id(value)] if id(value) in now else next(around)

    inputs, nodes = [again(value) for value in attribute.inputs], []
    for node in attribute.nodes:
        read = [None if value is None else given(value) for value in node.inputs]
        attributes = {k: _copied(builder, v, around, now) for k, v in node.attributes.items()}
        made = [again(value) for value in node.outputs]
        nodes.append(Node(node.op, node.domain, read, made, attributes, node.origin))
        for value in made:
            value.node = nodes[-1]
    outputs: list[Any] = [given(value) for value in attribute.outputs]
    return block(inputs, outputs, nodes)


def _key(read: Counting | Element) -> Any:
    if isinstance(read, Counting):
        first = read.value.tensor
        rule = None if read.rule is None else read.rule.key
        return first.dtype, str(first.tolist()), str(read.step.tolist()), read.to_last, rule
    return id(read.source), read.first, read.step


def counting(op: Op, read: Counting | Element, turn: Value, times: Value | None) -> Value:
    if isinstance(read, Element):
        first = read.first
        index = turn if read.step > 0 else op.Neg(turn)
        if read.step < 0:
            first -= read.source.many  # an index from the end
        return read.source.at(
            op, op.Add(index, op.constant(first, torch.int64)) if first else index
        )
    if read.rule is not None:
        return op.cast(read.rule.at(op, turn), read.value.dtype)
    wide = read.step.dtype
    begin = op.constant(read.value.tensor.detach().to(wide).tolist(), wide)
    step = op.constant(read.step.tolist(), wide)
    if read.to_last:
        turn = op.Add(op.Sub(turn, times), op.constant(1, torch.int64))
    return op.cast(op.Add(begin, op.Mul(op.cast(turn, wide), step)), read.value.dtype)

"""The writer of If, Loop and Scan refuses blocks that do not fit together."""

from __future__ import annotations

import pytest
import torch

from hx.errors import BuilderError
from hx.graph import blocks
from hx.graph.builder import Builder
from hx.graph.op import Op
from hx.ir.dialect import Dialect

FLOAT, INT, BOOL = torch.float32, torch.int64, torch.bool


@pytest.fixture
def builder():
    return Builder(Dialect(20))


def constant(builder, value):
    return builder.constant(torch.tensor(value))


def giving(builder, *values):
    """A block that gives these values."""
    with blocks.inner_nodes(builder) as nodes:
        outputs = [Op(builder).Identity(value) for value in values]
    return blocks.block([], outputs, nodes)


def round_of(builder, state, after, more=None):
    """The block of a loop with one state."""
    turn, on = builder.value(INT, []), builder.value(BOOL, [])
    inner = builder.value(*state)
    with blocks.inner_nodes(builder) as nodes:
        outputs = [Op(builder).Identity(on if more is None else more), Op(builder).Identity(after)]
    return blocks.block([turn, on, inner], outputs, nodes)


def test_nodes_of_a_block_stay_in_it(builder):
    yes = giving(builder, constant(builder, [1.0]))
    no = giving(builder, constant(builder, [2.0]))
    assert builder.nodes == [] and [node.op for node in yes.nodes] == ["Identity"]
    (made,) = blocks.write_if(builder, constant(builder, True), yes, no)
    assert [node.op for node in builder.nodes] == ["If"] and made.dtype == FLOAT


def test_an_error_inside_restores_the_nodes_around(builder):
    before = builder.nodes
    with pytest.raises(ZeroDivisionError), blocks.inner_nodes(builder):
        Op(builder).Identity(constant(builder, 1.0))
        raise ZeroDivisionError
    assert builder.nodes is before and not before


@pytest.mark.parametrize(
    "test, first, second, message",
    [
        (1, [1.0], [2.0], "If needs a bool, but got int64"),
        (True, [1.0], [2], "output 0 of the blocks of an If is float32 and int64"),
        (True, [1.0], [[2.0]], "output 0 of the blocks of an If has rank 1 and 2"),
    ],
)
def test_branches_that_differ_are_refused(builder, test, first, second, message):
    yes, no = (giving(builder, constant(builder, value)) for value in (first, second))
    with pytest.raises(BuilderError, match=message):
        blocks.write_if(builder, constant(builder, test), yes, no)


def test_branches_with_different_counts_are_refused(builder):
    one = constant(builder, 1.0)
    with pytest.raises(BuilderError, match="1 and 2 outputs"):
        blocks.write_if(
            builder, constant(builder, True), giving(builder, one), giving(builder, one, one)
        )


def test_a_loop_gives_its_states(builder):
    body = round_of(builder, (FLOAT, []), constant(builder, 2.0))
    begin = constant(builder, 1.0)
    made = blocks.write_loop(builder, constant(builder, 3), constant(builder, True), [begin], body)
    assert [value.dtype for value in made] == [FLOAT] and builder.nodes[-1].op == "Loop"


@pytest.mark.parametrize(
    "begin, state, after, more, message",
    [
        (1, (FLOAT, []), 2.0, None, "state 0 of a Loop is int64 and float32"),
        (1.0, (FLOAT, []), 2, None, "state 0 of a Loop is float32 and int64"),
        (1.0, (FLOAT, []), 2.0, 1, "a round of a Loop needs a bool"),
    ],
)
def test_loops_whose_states_change_are_refused(builder, begin, state, after, more, message):
    more = None if more is None else constant(builder, more)
    body = round_of(builder, state, constant(builder, after), more)
    with pytest.raises(BuilderError, match=message):
        blocks.write_loop(builder, None, constant(builder, True), [constant(builder, begin)], body)


def test_a_scan_with_too_few_inputs_is_refused(builder):
    body = giving(builder, constant(builder, 1.0))
    with pytest.raises(BuilderError, match="takes 0 inputs"):
        blocks.write_scan(builder, [], [constant(builder, [1.0])], body)


def test_a_block_with_the_same_input_twice_is_refused(builder):
    x = builder.value(FLOAT, [])
    with pytest.raises(BuilderError, match="same value"):
        blocks.block([x, x], [x], [])


# Converters write them through `op`.


def test_op_writes_one_node_with_checked_blocks(builder):
    op = Op(builder)
    yes, no = op.body(lambda: op.constant(1.0)), op.body(lambda: op.constant(2.0))
    made = op.If(op.constant(True), then_branch=yes, else_branch=no)
    assert made.dtype == FLOAT and builder.nodes[-1].outputs == [made]
    with pytest.raises(BuilderError, match="output 0 of the blocks of an If is float32 and int64"):
        op.If(True, then_branch=yes, else_branch=op.body(lambda: op.constant(2)))
    with pytest.raises(BuilderError, match="If has 1 outputs, and outputs=2 asks for others"):
        op.If(True, then_branch=yes, else_branch=no, outputs=2)


def test_a_loop_of_numbers_takes_their_dtypes(builder):
    op = Op(builder)
    state = op.input(INT, ())
    inputs = op.input(INT, ()), op.input(BOOL, ()), state
    body = op.body(lambda i, going, now: (going, op.Add(now, i)), *inputs)
    (last,) = op.Loop(3, None, op.constant(0), body=body, outputs=1)
    assert last.dtype == INT
    with pytest.raises(BuilderError, match="state 0 of a Loop is float32 and int64"):
        op.Loop(3, None, op.constant(0.0), body=body)


def test_a_scan_splits_states_from_slices(builder):
    op = Op(builder)
    body = op.body(lambda a, x: (op.Add(a, x), a), op.input(FLOAT, ()), op.input(FLOAT, ()))
    last, before = op.Scan(0.0, op.constant([1.0, 2.0]), body=body, num_scan_inputs=1)
    assert [value.dtype for value in (last, before)] == [FLOAT, FLOAT]
    with pytest.raises(BuilderError, match="state 0 of a Scan is int64 and float32"):
        op.Scan(op.constant(0), op.constant([1.0, 2.0]), body=body, num_scan_inputs=1)

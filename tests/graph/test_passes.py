"""hx's own graph passes: records like those of packs, run in one visible order."""

from __future__ import annotations

import dataclasses

import torch

from hx import GraphPass
from hx.graph import graph
from hx.graph.batchnorm import Folds
from hx.graph.builder import Builder
from hx.graph.op import Op
from hx.ir.dialect import Dialect


def draft():
    """One sum that is written twice, and a product that nothing reads."""
    builder = Builder(Dialect(20))
    op = Op(builder)
    x = builder.value(torch.float32, [2])
    first, second = op.Add(x, 1.0), op.Add(x, 1.0)
    op.Mul(x, x)
    return graph.Draft(builder.nodes, [("y", op.Sub(first, second))], Folds())


def test_each_pass_does_its_part():
    made = draft()
    seen = {}
    for each in graph.PASSES:
        made = each.result(made)
        seen.setdefault(each.name, [node.op for node in made.nodes])
    assert seen["drop-unread"] == ["Add", "Add", "Sub"]
    assert seen["merge-equal"] == ["Add", "Sub"]
    (sub,) = (node for node in made.nodes if node.op == "Sub")
    assert sub.inputs[0] is sub.inputs[1] and made.uses[id(sub.inputs[0])] == 2


def test_a_pass_changes_the_graph_or_returns_another():
    before = draft()
    other = dataclasses.replace(before, nodes=[])
    assert GraphPass("other", lambda made: other).result(before) is other
    assert GraphPass("in place", lambda made: made.nodes.clear()).result(before) is before
    assert before.nodes == []

"""A condition on a size: `torch.cond(x.shape[0] > 4, ...)`.

What arrives is a plain bool. Which comparison it was is known from the source of the call, where
that is all that the condition is made of; and what was compared, from the branch noted at its line.
"""

from __future__ import annotations

import ast
import operator
from builtins import len  # its own: `world` hooks that of the model
from typing import Any

from ...errors import Where
from ...graph.op import Op
from ...report import Escape
from ...sizes import dims
from ...sizes.asked import Asked
from ...sizes.polynomials import Poly
from ...tensors.values import Value
from .. import foreign
from ..recording import Recording

_OPERATORS = {operator.lt: "Less", operator.le: "LessOrEqual", operator.gt: "Greater",
              operator.ge: "GreaterOrEqual", operator.eq: "Equal", operator.ne: "Equal"}  # fmt: skip


def computed(recording: Recording, pred: Any) -> Value | None:
    """What the graph computes in place of a bool; None where it was no single comparison."""
    where = recording.where()
    noted = [
        escape
        for (kind, file, line), escape in recording.escapes.items()
        if kind == "branch" and (file, line) == (where.file, where.line)
    ]
    if len(noted) != 1 or not _is_all(where, pred):
        return None
    [escape] = noted
    asked = list(escape.asked)
    return _value(recording, pred, asked[0], escape) if len(asked) == 1 else None


def _is_all(where: Where, pred: bool) -> bool:
    """Whether a comparison decides the condition alone: the others say the same at every size."""
    found = foreign.around(where)
    calls = [
        node
        for node in ast.walk(found) if isinstance(node, ast.Call) and node.args
        and node.lineno == where.line and ast.unparse(node.func).endswith("cond")
    ] if found is not None else []  # fmt: skip
    if len(calls) != 1:
        return False
    said = calls[0].args[0]
    if isinstance(said, ast.Compare):
        return len(said.ops) == 1
    # All of them were asked: `and` stops at the first that is not so, `or` at one that is.
    return isinstance(said, ast.BoolOp) and isinstance(said.op, ast.And if pred else ast.Or)


def _value(recording: Recording, pred: bool, asked: Asked, escape: Escape) -> Value | None:
    if asked.ask not in _OPERATORS or not all(isinstance(x, (Poly, int)) for x in asked.of):
        return None
    sides = [dims.dim(x) if isinstance(x, Poly) else x for x in asked.of]
    if asked.ask(*map(dims.plain, sides)) is not pred:
        return None
    escape.carried = True
    return compared(recording, asked.ask, *sides)


def compared(recording: Recording, ask: Any, a: Any, b: Any) -> Value:
    """What compares two sizes, or numbers that the graph has, in the graph."""
    op = Op(recording.builder)
    a, b = (x if isinstance(x, Value) else op.constant(x) for x in (a, b))
    test = getattr(op, _OPERATORS[ask])(a, b)
    return op.Not(test) if ask is operator.ne else test

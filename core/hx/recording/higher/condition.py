"""A condition on a size: `torch.cond(x.shape[0] > 4, ...)`.

It arrives as a plain bool. The source of the call shows which comparison it was, if the condition
is a single comparison; the operands come from the branch noted at its line.
"""

from __future__ import annotations

import ast
import operator
from typing import Any

from ...errors import Where
from ...graph.op import Op
from ...ir.escapes import Escape
from ...ir.sizes import dims
from ...ir.sizes.comparisons import Asked
from ...ir.sizes.size_polynomials import Poly
from ...ir.value import Value
from ..calls import compiled_calls
from ..recording import Recording

_OPERATORS = {operator.lt: "Less", operator.le: "LessOrEqual", operator.gt: "Greater",
              operator.ge: "GreaterOrEqual", operator.eq: "Equal", operator.ne: "Equal"}  # fmt: skip


def computed(recording: Recording, pred: Any) -> Value | None:
    """The value that the graph computes for a bool; None if it was not a single comparison."""
    where = recording.position.where()
    noted = [
        escape
        for (kind, file, line), escape in recording.findings.escapes.items()
        if kind == "branch" and (file, line) == where.file_line
    ]
    if len(noted) != 1 or not _is_all(where, pred):
        return None
    [escape] = noted
    asked = list(escape.asked)
    return _value(recording, pred, asked[0], escape) if len(asked) == 1 else None


def _is_all(where: Where, pred: bool) -> bool:
    """Return True if one comparison decides the condition: the others agree at every size."""
    found = compiled_calls.around(where)
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
    """The comparison of two sizes, or numbers of the graph, in the graph."""
    op = Op(recording.builder)
    a, b = (x if isinstance(x, Value) else op.constant(x) for x in (a, b))
    test = getattr(op, _OPERATORS[ask])(a, b)
    return op.Not(test) if ask is operator.ne else test

"""Names that each round of a loop surely changes in the same way: `k += 2`, `rows.append(row)`.

A number that rose by the same in a few recorded rounds may do something else later, as with
`k = min(k + 1, 20)`. Only what the code says holds for every round.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_FIXED = (ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.Call,
          ast.operator, ast.unaryop, ast.expr_context)  # fmt: skip
_FUNCTIONS = ("range", "len")


def is_steady(loop: ast.For | ast.While, target: ast.expr) -> bool:
    """Return True if every round of a loop surely changes a name in the same way."""
    inner = list(ast.walk(loop))
    if any(isinstance(each, ast.Continue) for each in inner):
        return False
    name = ast.unparse(target)
    mentions = [each for each in inner if isinstance(each, type(target)) and _is(each, name)]
    set_here = {each.id for each in inner if isinstance(each, ast.Name) and _is_set(each)}
    sure = [_changed(each, name, set_here) for each in _in_each_round(loop.body, set_here)]
    known = sum(map(bool, sure)) + _numbered_by(loop, name)
    if not known or "fill" in sure:  # a list, which is read by its place alone
        read = [each for each in inner if isinstance(each, ast.Subscript) and not _is_set(each)]
        places = sum(_is(each.value, name) for each in read)
        return bool(known) and known + places == len(mentions)
    return known == sum(map(_is_set, mentions))


def _is(node: ast.AST, name: str) -> bool:
    return ast.unparse(node) == name


def _is_set(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _in_each_round(body: Sequence[ast.stmt], set_here: set[str]) -> Iterator[ast.stmt]:
    """The statements that run as often in every round."""
    for each in body:
        yield each
        if isinstance(each, ast.For) and _is_fixed(each.iter, set_here):
            if not any(isinstance(node, ast.Break) for node in ast.walk(each)):
                yield from _in_each_round(each.body, set_here)


def _numbered_by(loop: ast.For | ast.While, name: str) -> bool:
    """Return True for the name that `range` or `enumerate` gives its number in each round."""
    if isinstance(loop, ast.While) or not isinstance(loop.iter, ast.Call):
        return False
    target, function = loop.target, ast.unparse(loop.iter.func)
    if function == "enumerate" and isinstance(target, ast.Tuple):
        return _is(target.elts[0], name)
    return function == "range" and _is(target, name)


def _changed(statement: ast.stmt, name: str, set_here: set[str]) -> str:
    """Return how a statement changes a name: "count" or "fill"; nothing if it may do anything else."""
    if isinstance(statement, ast.AugAssign) and _is(statement.target, name):
        if isinstance(statement.value, (ast.List, ast.Tuple)):
            parts = statement.value.elts
            return "" if any(isinstance(each, ast.Starred) for each in parts) else "fill"
        return "count" if _is_fixed(statement.value, set_here) else ""
    if isinstance(statement, ast.Assign) and isinstance(value := statement.value, ast.BinOp):
        again = len(statement.targets) == 1 and _is(statement.targets[0], name)
        rises = isinstance(value.op, (ast.Add, ast.Sub, ast.Mult)) and _is(value.left, name)
        return "count" if again and rises and _is_fixed(value.right, set_here) else ""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        return "fill" if call.func.attr == "append" and _is(call.func.value, name) else ""
    return ""


def _is_fixed(node: ast.expr, set_here: set[str]) -> bool:
    """Return True for an expression of numbers and names that the loop does not set."""
    for each in ast.walk(node):
        if not isinstance(each, _FIXED) or (isinstance(each, ast.Name) and each.id in set_here):
            return False
        if isinstance(each, ast.Call) and ast.unparse(each.func) not in _FUNCTIONS:
            return False
    return True

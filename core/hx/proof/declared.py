"""Check of the declared inputs and outputs of a graph against the tensors of a run.

A dimension is a number, a name, or an expression of names (`2*batch`, `(height - 1)//2 + 1`). A
name has one value throughout a run; an expression must come out at what is there.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_OPERATIONS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
_FUNCTIONS: dict[str, Callable] = {
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "ceiling": math.ceil,
    "Min": min,
    "Max": max,
    "abs": abs,
}


class Unknown(Exception):
    pass


@dataclass
class Sizes:
    """Values of the names of dimensions in a run so far, and where each was seen."""

    values: dict[str, int] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def check(self, what: str, declared: Any, shape: Iterable[int]) -> str:
        """Check a shape against a ValueInfoProto; return the first contradiction, or ""."""
        tensor = declared.type.tensor_type
        if not tensor.HasField("shape"):
            return ""
        shape, dims = list(shape), list(tensor.shape.dim)
        if len(dims) != len(shape):
            return f"{what} is declared with {len(dims)} dimensions and has {len(shape)}: {shape}"
        for axis, (dim, size) in enumerate(zip(dims, shape)):
            want: int | None = None
            why = ""
            if dim.HasField("dim_value"):
                want = dim.dim_value
            elif dim.dim_param:
                want, why = self._expected(dim.dim_param, size, f"{what}, axis {axis}")
            if want is not None and want != size:
                return (
                    f"{what} has size {size} on axis {axis}, where the file declares {why or want}"
                )
        return ""

    def _expected(self, text: str, size: int, place: str) -> tuple[int | None, str]:
        if text in self.values:
            where = self.places[text]
            return self.values[text], f"{text!r}, which is {self.values[text]} ({where})"
        try:
            value = evaluate(text, self.values)
        except Unknown:
            self.values[text], self.places[text] = size, place
            return None, ""
        return value, f"{text!r}, which is {value}"


def evaluate(text: str, values: Mapping[str, int]) -> int:
    """Return the value of an expression of dimensions; raise Unknown if it cannot be evaluated."""
    try:
        return _evaluate(ast.parse(text, mode="eval").body, values)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise Unknown(text) from error


def _evaluate(node: ast.AST, values: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _evaluate(node.left, values), _evaluate(node.right, values)
        if isinstance(node.op, ast.Pow) and not 0 <= right <= 8:
            raise Unknown(ast.dump(node))
        return _OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_evaluate(node.operand, values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        if function is not None:
            return function(*(_evaluate(argument, values) for argument in node.args))
    raise Unknown(ast.dump(node))

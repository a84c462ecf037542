"""A rewriter of loops, so that what they count follows from the number of their rounds.

for row in x:               rounds = Rounds((0,), lambda: k)
    k += 1                  for row in rounds.over(x):
                                k += 1
                            else:
                                if counts(rounds, 0):
                                    k = number(rounds, 0)
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

from .steady_counts import is_steady

_COLLECTS = ("tuple", "set", "frozenset", "dict")
_ITEMS = "_hx_items"


class LoopSpeller(ast.NodeTransformer):
    """A rewriter that watches loops and comprehensions."""

    def __init__(self, kept: Mapping[int, list[ast.expr]]) -> None:
        self.changed = False
        self.kept = kept  # names that each loop sets, and that are read behind it
        self.loops = 0

    def visit_body(self, made: ast.FunctionDef) -> ast.FunctionDef:
        """Rewrite what a function does."""
        whole = ast.Module(made.body, [])
        made.body = self.generic_visit(whole).body  # type: ignore[attr-defined]
        return made

    def _called(self, at: ast.AST, helper: str, *args: ast.expr) -> ast.expr:
        self.changed = True
        name = ast.copy_location(ast.Name(f"_hx_{helper}", ast.Load()), at)
        return ast.copy_location(ast.Call(name, list(args), []), at)

    def visit_For(self, node: ast.For) -> Any:
        kept, steady = self._kept(node)
        self.generic_visit(node)
        if not kept:
            return node
        begin, rounds = self._watched(node, kept, steady)
        node.iter = _method(rounds, "over", node.iter)
        return [begin, node]

    def visit_While(self, node: ast.While) -> Any:
        kept, steady = self._kept(node)
        self.generic_visit(node)
        # A helper around `a and b` would ask the truth of `a` twice: in the operator, and as its result.
        if not kept or isinstance(node.test, (ast.Constant, ast.BoolOp)):
            return node
        begin, rounds = self._watched(node, kept, steady)
        node.test = _method(rounds, "goes_on", _method(rounds, "asks"), node.test)
        return [begin, node]

    def _kept(self, node: ast.For | ast.While) -> tuple[list[ast.expr], tuple[int, ...]]:
        """The names that a loop keeps, and the places of those that it changes alike in each round."""
        kept = copy.deepcopy(self.kept.get(id(node), []))
        return kept, tuple(at for at, each in enumerate(kept) if is_steady(node, each))

    def _watched(
        self, node: ast.For | ast.While, kept: list[ast.expr], steady: tuple[int, ...]
    ) -> tuple[ast.stmt, ast.expr]:
        """Write what follows a loop; return a statement before it, and its record of rounds."""
        self.loops += 1
        name = f"_hx_rounds_{self.loops}"
        rounds = ast.copy_location(ast.Name(name, ast.Load()), node)
        read: list[ast.expr] = [_later(_as(ast.Load(), each)) for each in kept]
        stored = ast.copy_location(ast.Name(name, ast.Store()), node)
        places = ast.Tuple([ast.Constant(place) for place in steady], ast.Load())
        begin = ast.Assign([stored], self._called(node, "rounds", places, *read))
        behind: list[ast.stmt] = []
        for place in steady:
            each = kept[place]
            if isinstance(getattr(each, "ctx", None), ast.Load):
                continue  # a container, which stays the same
            at = ast.Constant(place)
            put = ast.Assign([each], self._called(node, "number", rounds, at))
            behind.append(ast.If(self._called(node, "counts", rounds, at), [put], []))
        for statement in behind:
            _placed(statement, node)
        node.orelse = [*behind, *node.orelse]
        return _placed(begin, node), rounds

    def _collected(self, node: Any) -> Any:
        """Rewrite [f(i) for i in x] as a function of x, whose length is known."""
        self.generic_visit(node)
        first = node.generators[0]
        if first.is_async or any(isinstance(each, ast.NamedExpr) for each in ast.walk(node)):
            return node
        given, first.iter = first.iter, ast.copy_location(ast.Name(_ITEMS, ast.Load()), node)
        made = _later(node, _ITEMS)
        each = ast.Constant(len(node.generators) == 1 and not first.ifs)
        return self._called(node, "collected", _placed(made, node), given, each)

    visit_SetComp = visit_DictComp = _collected


def collects(node: ast.Call, local: set[str]) -> bool:
    """Return True for tuple(x), set(x), dict(x), of one argument."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in _COLLECTS or name in local or len(node.args) != 1 or node.keywords:
        return False
    return not isinstance(node.args[0], ast.Starred)


def _method(owner: ast.expr, name: str, *args: ast.expr) -> ast.expr:
    method = ast.Attribute(copy.deepcopy(owner), name, ast.Load())
    return _placed(ast.Call(method, list(args), []), owner)


def _later(made: ast.expr, *names: str) -> ast.expr:
    """A function of these names that returns an expression."""
    given = [ast.arg(name) for name in names]
    of = ast.arguments(posonlyargs=[], args=given, kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(of, made)


def _as(use: ast.expr_context, node: ast.expr) -> Any:
    """A name that is read or set."""
    copied: Any = copy.deepcopy(node)
    copied.ctx = use
    return copied


def _placed(made: Any, at: ast.AST) -> Any:
    """The same, at the line of another node, where it has none of its own."""
    for each in ast.walk(made):
        if not hasattr(each, "lineno"):
            ast.copy_location(each, at)
    return made

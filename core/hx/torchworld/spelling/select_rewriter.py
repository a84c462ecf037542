"""A rewriter of loops: their Ifs may compute both sides, and select between the results.

Each If is kept beside its other form, as the recording decides which of them runs (`selections`).
Only Ifs are rewritten whose sides assign to names and items, append to lists, or skip the round.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...budget import BUDGET

SIGNS: dict[type, str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
FUNCTIONS = {f"sign_{name}": getattr(operator, name) for name in SIGNS.values()}
_IMPURE = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def rewrite_loops(made: ast.FunctionDef, lists: set[str]) -> bool:
    """Rewrite the loops of a function in place; return False if none was."""
    rewriter = _Loops(set(_bound(made.args)), lists)
    made.body = rewriter.block(made.body)
    if rewriter.changed:
        ast.fix_missing_locations(made)
    return rewriter.changed


def _bound(args: ast.arguments) -> Iterator[str]:
    for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if each is not None:
            yield each.arg


def _call(at: ast.AST, helper: str, *args: ast.expr) -> ast.Call:
    name = ast.copy_location(ast.Name(f"_hx_{helper}", ast.Load()), at)
    return ast.copy_location(ast.Call(name, [*args], []), at)


def _later(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(nothing, value), value)


class _Loops:
    """Rewrites the loops of one function; it knows the names that are bound so far."""

    def __init__(self, bound: set[str], lists: set[str]) -> None:
        self.bound, self.lists = bound, lists
        self.changed = False
        self._count = 0

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            made += self._statement(statement)
            self.bound |= _stored(statement)
        return made

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, (ast.For, ast.While)) and not node.orelse:
            return self._loop(node)
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, None)
            if isinstance(inner, list) and not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                setattr(node, name, self.block(inner))
        return [_Expressions(self).visit(node)] if not _has_blocks(node) else [node]

    def _loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        names = _stored(node.target) if isinstance(node, ast.For) else set[str]()
        before = set(self.bound)
        self.bound |= names
        lists = {name for name in self.lists if _only_appended(name, node.body)}
        ifs = _Ifs(self, lists)
        body = ifs.block(_without_continue(node.body))
        if body is None:
            node.body = self.block(node.body)
            return [node]
        node.body = body
        self.changed = True
        held = sorted((ifs.assigned & before) - names)
        values = (ast.copy_location(ast.Name(name, ast.Load()), node) for name in held)
        note = _call(node, "note_ifs", _tuple(ifs.lines), ast.Constant(bool(ifs.appended)), *values)
        first: list[ast.stmt] = [ast.copy_location(ast.Expr(note), node)]
        first += [self._set(node, name, "held") for name in held]
        last = [self._set(node, name, "collect") for name in sorted(ifs.appended)]
        return [*first, node, *last]

    def _set(self, at: ast.AST, name: str, helper: str) -> ast.stmt:
        value = _call(at, helper, ast.copy_location(ast.Name(name, ast.Load()), at))
        target = ast.copy_location(ast.Name(name, ast.Store()), at)
        return ast.copy_location(ast.Assign([target], value), at)

    def new_name(self, kind: str) -> str:
        self._count += 1
        return f"_hx_own_{kind}{self._count}"


class _Ifs:
    """Rewrites the Ifs in the body of one loop."""

    def __init__(self, loops: _Loops, lists: set[str]) -> None:
        self._loops, self._lists = loops, lists
        self.lines: set[int] = set()  # of their tests
        self.assigned: set[str] = set()
        self.appended: set[str] = set()

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt] | None:
        """Return the body of a loop with its Ifs in both forms; None if none has another form."""
        statements = [*map(_as_if, body)]
        if not any(isinstance(each, ast.If) and self._is_plain(each, 0) for each in statements):
            return None
        made: list[ast.stmt] = []
        for node in statements:
            if isinstance(node, ast.If) and self._is_plain(node, 0):
                made += self._both(node, [], 0)
            else:
                made += self._loops.block([node])
            self._loops.bound |= _stored(node)
        return [self._appending(node, []) for node in made]

    def _is_plain(self, node: ast.stmt, depth: int) -> bool:
        """Return True for a statement of which both forms can be written."""
        if any(isinstance(each, _IMPURE) for each in ast.walk(node)):
            return False
        if isinstance(node, ast.If):
            inner = [*node.body, *node.orelse]
            return depth < BUDGET.nodes.nested_ifs and all(
                self._is_plain(each, depth + 1) for each in inner
            )
        if isinstance(node, ast.Assign):
            return all(map(_is_target, node.targets))
        if isinstance(node, ast.AugAssign):
            return isinstance(node.target, ast.Name) or _is_item(node.target)
        if isinstance(node, ast.Expr):
            return _appended_to(node) in self._lists or isinstance(node.value, ast.Constant)
        return isinstance(node, ast.Pass)

    def _both(self, node: ast.If, tests: list[str], depth: int) -> list[ast.stmt]:
        """Return an If that computes both sides if a tensor answers its test."""
        test, new = self._loops.new_name("test"), self._loops.new_name
        names = sorted(_stored(node))
        self.assigned |= set(names)
        self.lines |= _lines(node.test)
        plain = copy.deepcopy(node)
        ask = ast.IfExp(_call(node, "selecting"), tested(node.test), copy.deepcopy(node.test))
        made: list[ast.stmt] = [_store(node, test, ask)]
        old, yes = new("old"), new("yes")
        side: list[ast.stmt] = [_store(node, old, self._read(node, names))] if names else []
        side += self._side(node.body, [*tests, test], depth)
        if names:
            side.append(_store(node, yes, self._read(node, names)))
            side.append(_unpack(node, names, ast.Name(old, ast.Load())))
        other = self.new_negation(node, test) if node.orelse else None
        if other is not None:
            name, statement = other
            side += [statement, *self._side(node.orelse, [*tests, name], depth)]
        if names:
            picked = _call(
                node, "selected", *(ast.Name(n, ast.Load()) for n in (test, yes)),
                self._read(node, names),
            )  # fmt: skip
            side.append(_unpack(node, names, picked))
        plain.test = ast.Name(test, ast.Load())
        plain.body = [each for part in plain.body for each in self._plainly(part)]
        plain.orelse = [each for part in plain.orelse for each in self._plainly(part)]
        answered = _call(node, "is_answer", ast.Name(test, ast.Load()))
        both = ast.If(answered, side or [ast.Pass()], [plain])
        return [*made, ast.copy_location(both, node)]

    def new_negation(self, node: ast.If, test: str) -> tuple[str, ast.stmt]:
        name = self._loops.new_name("test")
        return name, _store(node, name, _call(node, "negated", ast.Name(test, ast.Load())))

    def _plainly(self, node: ast.stmt) -> list[ast.stmt]:
        return self._both(node, [], 1) if isinstance(node, ast.If) else [node]

    def _side(self, body: list[ast.stmt], tests: list[str], depth: int) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for node in copy.deepcopy(body):
            if isinstance(node, ast.If):
                made += self._both(node, tests, depth + 1)
            elif isinstance(node, ast.AugAssign):
                value = ast.copy_location(
                    ast.BinOp(_loaded(node.target), node.op, node.value), node
                )
                made.append(self._assigned(node, [node.target], value, tests))
            elif isinstance(node, ast.Assign):
                made.append(self._assigned(node, node.targets, node.value, tests))
            else:
                made.append(self._appending(node, tests))
        return made

    def _assigned(
        self, at: ast.stmt, targets: list[ast.expr], value: ast.expr, tests: list[str]
    ) -> ast.stmt:
        """Return an assignment; an item keeps what it is where a test is false."""
        (target, *more) = targets
        if isinstance(target, ast.Subscript) and not more:
            joined = _call(at, "all_of", *(_later(ast.Name(t, ast.Load())) for t in tests))
            value = _call(at, "selected", joined, value, _loaded(target))
        return ast.copy_location(ast.Assign(targets, value), at)

    def _appending(self, node: ast.stmt, tests: list[str]) -> ast.stmt:
        """Rewrite rows.append(x) for the lists that the loop's Ifs append to."""
        name = _appended_to(node)
        if name is None or name not in (self._lists if tests else self.appended):
            return node  # a list that all rounds append to stays as it is
        self.appended.add(name)
        assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        given = [ast.Name(name, ast.Load()), *node.value.args]
        call = _call(node, "appended", *given, *(ast.Name(t, ast.Load()) for t in tests))
        if tests:
            return ast.copy_location(ast.Expr(call), node)
        both = ast.IfExp(_call(node, "selecting"), call, node.value)
        return ast.copy_location(ast.Expr(both), node)

    def _read(self, at: ast.AST, names: Iterable[str]) -> ast.expr:
        each: list[ast.expr] = [
            _call(at, "read", _later(ast.copy_location(ast.Name(name, ast.Load()), at)))
            for name in names
        ]
        return ast.Tuple(each, ast.Load())


class _Expressions(ast.NodeTransformer):
    """Rewrites `a if t else b` and `[x for x in y if t]`."""

    def __init__(self, loops: _Loops) -> None:
        self._loops = loops

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef  # type: ignore

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        (each, *more) = node.generators
        if more or len(each.ifs) != 1 or each.is_async:
            return node
        if any(isinstance(part, _IMPURE) for part in ast.walk(node)):
            return node
        self._loops.changed = True
        other = copy.deepcopy(node)
        (one,) = other.generators
        (test,) = one.ifs
        one.ifs = []
        other.elt = _call(node, "entry", tested(test), _later(other.elt))
        both = _call(node, "taken_items", other)
        noted = _call(node, "note_ifs", _tuple(_lines(test)), ast.Constant(True))
        selects = ast.BoolOp(ast.Or(), [noted, _call(node, "selecting")])  # noting returns None
        return ast.copy_location(ast.IfExp(selects, both, node), node)


def tested(node: ast.expr) -> ast.expr:
    """Return a test whose answer may be a tensor."""
    if isinstance(node, ast.BoolOp):
        helper = "all_of" if isinstance(node.op, ast.And) else "any_of"
        return _call(node, helper, *(_later(tested(each)) for each in node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _call(node, "negated", tested(node.operand))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SIGNS:
        sign = ast.Name(f"_hx_sign_{SIGNS[type(node.ops[0])]}", ast.Load())
        sides = (copy.deepcopy(each) for each in (node.left, *node.comparators))
        return _call(node, "compared", ast.copy_location(sign, node), *sides)
    return copy.deepcopy(node)


def _store(at: ast.AST, name: str, value: ast.expr) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), at)
    return ast.copy_location(ast.Assign([target], value), at)


def _loaded(target: ast.expr) -> Any:
    """Return a copy of what is assigned to, as it is read."""
    old: Any = copy.deepcopy(target)
    old.ctx = ast.Load()
    return old


def _unpack(at: ast.AST, names: Sequence[str], value: ast.expr) -> ast.stmt:
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
    return ast.copy_location(ast.Assign([ast.Tuple(targets, ast.Store())], value), at)


def _stored(node: ast.AST) -> set[str]:
    """Return the names that a statement assigns to."""
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _tuple(numbers: set[int]) -> ast.expr:
    return ast.Tuple([ast.Constant(n) for n in sorted(numbers)], ast.Load())


def _lines(node: ast.expr) -> set[int]:
    return {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _has_blocks(node: ast.stmt) -> bool:
    return any(isinstance(getattr(node, name, None), list) for name in ("body", "orelse"))


def _is_item(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)


def _is_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return all(isinstance(each, ast.Name) for each in node.elts)
    return isinstance(node, ast.Name) or _is_item(node)


def _appended_to(node: ast.stmt) -> str | None:
    """Return the name of the list in rows.append(x)."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return None
    of = call.func
    if not isinstance(of, ast.Attribute) or of.attr != "append":
        return None
    return of.value.id if isinstance(of.value, ast.Name) else None


def _only_appended(name: str, body: Sequence[ast.stmt]) -> bool:
    """Return True if a loop does nothing with a list but append to it."""
    uses = [
        each for node in body for each in ast.walk(node)
        if isinstance(each, ast.Name) and each.id == name
    ]  # fmt: skip
    appends = [
        each for node in body for each in ast.walk(node)
        if isinstance(each, ast.Expr) and _appended_to(each) == name
    ]  # fmt: skip
    return len(uses) == len(appends)


def _as_if(node: ast.stmt) -> ast.stmt:
    """Return `if t: name = a` and `else: name = b` for `name = a if t else b`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.IfExp):
        return node
    sides: list[list[ast.stmt]] = [
        [ast.copy_location(ast.Assign(copy.deepcopy(node.targets), side), node)]
        for side in (node.value.body, node.value.orelse)
    ]
    return ast.copy_location(ast.If(node.value.test, *sides), node)


def _without_continue(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Put what follows `if t: continue` into an else."""
    made: list[ast.stmt] = []
    for i, node in enumerate(body):
        if not isinstance(node, ast.If) or node.orelse:
            made.append(node)
        elif isinstance(node.body[-1], ast.Continue):
            rest = _without_continue(body[i + 1 :])
            whole = ast.If(node.test, node.body[:-1] or [ast.Pass()], rest)
            return [*made, ast.copy_location(whole, node)]
        else:
            made.append(node)
    return made

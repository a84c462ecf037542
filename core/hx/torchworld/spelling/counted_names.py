"""Names that a loop sets, and that are read behind it: they may count its rounds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

_FILLS = frozenset("append appendleft extend add update setdefault insert".split())
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def kept(made: ast.FunctionDef) -> dict[int, list[ast.expr]]:
    """The names that each loop of a function keeps, by the id of the loop."""
    found: dict[int, list[ast.expr]] = {}
    shared, own, nested = _shared(made), _own(made), _set_inside(made)

    def visit(body: Sequence[ast.stmt], behind: list[Sequence[ast.stmt]]) -> None:
        for at, each in enumerate(body):
            rest = [body[at + 1 :], *behind]
            if isinstance(each, (ast.For, ast.While)):
                found[id(each)] = [
                    target
                    for target in _set_in(each, own, nested)
                    if not isinstance(target, ast.Name)
                    or isinstance(target.ctx, ast.Load)
                    or target.id in shared
                    or _is_read(target.id, [each.orelse, *rest])
                ]
                visit(each.body, [[each], *rest])
                visit(each.orelse, rest)
            elif not isinstance(each, _SCOPES):
                for inner in _blocks(each):
                    visit(inner, rest)

    visit(made.body, [])
    for each in ast.walk(made):
        if isinstance(each, ast.FunctionDef) and each is not made:
            found |= kept(each)
    return found


def _own(made: ast.FunctionDef) -> set[str]:
    """The names of a function's arguments and variables."""
    names = {each.arg for each in ast.walk(made.args) if isinstance(each, ast.arg)}
    stored = (each for each in ast.walk(made) if isinstance(each, ast.Name))
    return names | {each.id for each in stored if isinstance(each.ctx, ast.Store)}


def _set_inside(made: ast.FunctionDef) -> set[str]:
    """The names of a function that functions inside of it set."""
    found = set[str]()
    for inner in ast.walk(made):
        if isinstance(inner, ast.FunctionDef) and inner is not made:
            found.update(
                *(each.names for each in ast.walk(inner) if isinstance(each, ast.Nonlocal))
            )
    return found & _own(made)


def _shared(made: ast.FunctionDef) -> set[str]:
    """Names that functions inside, or around, may read at any time."""
    found = set()
    for node in ast.walk(made):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
        elif isinstance(node, (*_SCOPES, ast.GeneratorExp)) and node is not made:
            found.update(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    return found


def _blocks(statement: ast.stmt) -> Iterable[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for each in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield each.body


def _set_in(loop: ast.For | ast.While, own: set[str], nested: set[str]) -> list[ast.expr]:
    """The names, `self.k` and `k[0]` that a loop sets in its rounds; the lists and objects that it may
    change there.
    """
    found: dict[str, ast.expr] = {}
    waiting: list[ast.AST] = [*loop.body, *([loop.target] if isinstance(loop, ast.For) else [])]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _SCOPES):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = node
        elif isinstance(node, ast.AugAssign) and _may_be_read_again(node.target):
            found[ast.unparse(node.target)] = node.target
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            of_own = isinstance(owner, ast.Name) and owner.id in own
            if of_own or (node.func.attr in _FILLS and _may_be_read_again(owner)):
                found.setdefault(ast.unparse(owner), owner)
        elif isinstance(node, ast.Call):
            found |= {name: ast.Name(name, ast.Store()) for name in nested}
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name):
                found.setdefault(node.value.id, node.value)
    return [found[key] for key in sorted(found)]


def _may_be_read_again(node: ast.expr) -> bool:
    """Return True for `self.k` and `k[0]`, which reading does not change."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and _may_be_read_again(node.value)
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) or _may_be_read_again(node.value)
    return isinstance(node, ast.Name)


def _is_read(name: str, behind: Iterable[Iterable[ast.AST]]) -> bool:
    """Return True if a name may be read before it is set again."""
    for statements in behind:
        found = _first_use(name, statements)
        if found is not None:
            return found
    return False


def _first_use(name: str, nodes: Iterable[ast.AST | None]) -> bool | None:
    """Return True if the name is read first in these, False if it surely is set first."""
    for node in nodes:
        found = None if node is None else _use_in(name, node)
        if found is not None:
            return found
    return None


def _use_in(name: str, node: ast.AST) -> bool | None:
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Load) if node.id == name else None
    if isinstance(node, ast.AugAssign):
        read = isinstance(node.target, ast.Name) and node.target.id == name
        return True if read else _first_use(name, [node.value, node.target])
    if isinstance(node, ast.Assign):
        return _first_use(name, [node.value, *node.targets])
    if isinstance(node, (ast.For, ast.While)):
        head = [node.iter, node.target] if isinstance(node, ast.For) else [node.test]
        begin = _first_use(name, head)
        return begin if begin is not None else _in_any(name, [node.body, node.orelse])
    if isinstance(node, ast.If):
        begin = _first_use(name, [node.test])
        return begin if begin is not None else _in_any(name, [node.body, node.orelse])
    if isinstance(node, (ast.Try, ast.Match)):
        return _in_any(name, _blocks(node))
    if isinstance(node, (ast.Return, ast.Raise)):
        return bool(_first_use(name, ast.iter_child_nodes(node)))
    if isinstance(node, (*_SCOPES, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        inside = (each for each in ast.walk(node) if isinstance(each, ast.Name))
        return True if any(each.id == name for each in inside) else None
    return _first_use(name, ast.iter_child_nodes(node))


def _in_any(name: str, blocks: Iterable[Iterable[ast.AST]]) -> bool | None:
    """Return True if the name is read first in one of several blocks, False if all of them set it."""
    found = [_first_use(name, block) for block in blocks]
    if True in found:
        return True
    return False if all(each is False for each in found) else None

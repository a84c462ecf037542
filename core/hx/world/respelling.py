"""The model's own functions, respelled where Python would make a plain number of a size.

`int(n)`, `float(n)`, `1.5 * n` and `torch.Tensor([n])` never ask what `n` is, and `table[n]` tells
nobody. For the time of a recording the functions that say such things run a copy that asks first:

    int(h * 0.5)        whole(h * 0.5)
    self.scale / n      divided(self.scale, n)

Only functions that the model can `reach` are looked at, and only those whose source is there; each
is compiled once, in its own file and at its own lines.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dis
import functools
import inspect
import linecache
import types
from builtins import len, max, range  # their own: `world` hooks those of the model
from collections.abc import Callable, Container, Iterator
from typing import Any, TypeGuard

from . import patching, reach
from .spellings import HELPERS, KINDS, OPERATORS

# And who is called in their place.
_BUILTINS = {"int": "whole", "float": "real", "type": "kind", "list": "listed"}
_RUNS_LATER = (
    inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


def hooks(recording: Any) -> dict[Any, Callable]:
    """What to hook: function -> handler that runs its respelled copy."""
    found = {}
    with _files_forgotten():
        for function in reach.reachable(recording):
            # What a user's rewrite makes of a function is no longer what is written there.
            copy = None if patching.is_hooked(function) else respelled(function)
            if copy is not None:
                found[function] = _instead(copy)
    recording.respelled |= {patching.own_code(function) for function in found}
    return found


def reaches_more(prepared: Any) -> bool:
    """Whether code that ran when the model was recorded would have to be respelled, and was not.

    It is, when the model is recorded once more.
    """
    known = {*map(id, prepared.respelled), *(id(copy) for _, copy in _known.values())}
    codes = [code for code in prepared.met if id(code) not in known]
    found = [function for function in reach.running(codes) if respelled(function)]
    prepared.respelled |= {function.__code__ for function in found}
    prepared.unnamed += found
    return bool(found)


def beside(function: Callable) -> dict[Any, Callable]:
    """The same for one function under its decorators, and those of its module that it calls."""
    found: dict[Any, Callable] = {}
    front, seen = [inspect.unwrap(function)], set()
    while front:
        each: Any = front.pop()
        if not isinstance(each, types.FunctionType) or each in seen:
            continue
        seen.add(each)
        copy = None if patching.is_hooked(each) else respelled(each)
        if copy is not None:
            found[each] = _instead(copy)
        named = reach.names(each.__code__) & each.__globals__.keys()
        near = [each.__globals__[name] for name in named]
        own = [x for x in near if getattr(x, "__module__", None) == each.__module__]
        front += [inspect.unwrap(x) for x in own if callable(x)]
    return found


@contextlib.contextmanager
def _files_forgotten() -> Iterator[None]:
    """Lines of files that are read inside are not kept: there may be as many as a library has."""
    had = set(linecache.cache)
    try:
        yield
    finally:
        for file in linecache.cache.keys() - had:
            entry: Any = linecache.cache.get(file)
            if entry is not None and len(entry) > 1 and entry[1] is not None:  # there is a file
                linecache.cache.pop(file, None)


def _instead(copy: Callable) -> Callable:
    return lambda original, args, kwargs: copy(*args, **kwargs)


# By identity: codes of two files that say the same are equal. The first one keeps the id taken.
_known: dict[int, tuple[types.CodeType, types.CodeType | None]] = {}


def respelled(function: types.FunctionType) -> Callable | None:
    """A copy of the function that keeps sizes; None where it says nothing that loses them."""
    code = patching.own_code(function)
    if id(code) not in _known:
        path = getattr(code, "co_qualname", function.__qualname__)  # new in 3.11
        owner = path.rpartition(".")[0].rpartition(".")[2]
        _known[id(code)] = code, _respelled(code, owner) if _may_lose(code) else None
    _, new = _known[id(code)]
    if new is None or not function.__globals__.keys().isdisjoint(_BUILTINS):
        return None
    cells = {**_CELLS, **dict(zip(code.co_freevars, function.__closure__ or ()))}
    if not cells.keys() >= set(new.co_freevars):
        return None
    made = types.FunctionType(
        new, function.__globals__, function.__name__, function.__defaults__,
        tuple(cells[name] for name in new.co_freevars),
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    return made


_CELLS = {f"_hx_{name}": types.CellType(helper) for name, helper in HELPERS.items()}
_SUBSCRIPTS = {dis.opmap[name] for name in ("BINARY_SUBSCR", "BINARY_SLICE") if name in dis.opmap}


def _may_lose(code: types.CodeType) -> bool:
    """Whether it names int, float or type, has a float in it, fills a list, takes something out of one,
    or computes beside a shape."""
    if code.co_flags & _RUNS_LATER or code.co_name.strip("<>") not in (code.co_name, "lambda"):
        return False
    words = set(reach.names(code))
    sizes = {"int", "float", "type", "shape", "size", "numel", "append", "stack", "cat", *KINDS}
    floats = any(type(c) is float for c in code.co_consts)
    if words & sizes or "range" in words or floats or _comprehends(code):
        return True
    return not _SUBSCRIPTS.isdisjoint(code.co_code[::2])


def _comprehends(code: types.CodeType) -> bool:
    """Whether it has a list comprehension, which is a function of its own before Python 3.12."""
    inner = (c.co_name for c in code.co_consts if isinstance(c, types.CodeType))
    return "<listcomp>" in inner or dis.opmap["LIST_APPEND"] in code.co_code[::2]


def _respelled(code: types.CodeType, owner: str) -> types.CodeType | None:
    if code.co_name == "<lambda>":
        return _respelled_lambda(code, owner)
    try:
        made, first = _written(code)
    except (SyntaxError, ValueError, IndexError):  # no source, or that of something else
        return None
    if not isinstance(made, ast.FunctionDef) or made.name != code.co_name:
        return None
    _bare(made)
    ast.increment_lineno(made, first - 1)
    plain = _compiled(made, code, owner)
    if plain is None or not _same(plain, code):
        return None  # the file was changed since, or something else wrote the code
    speller = _Speller({*code.co_varnames, *code.co_cellvars, *code.co_freevars}, _lists(made))
    made.body = [speller.visit(statement) for statement in made.body]
    return _compiled(made, code, owner) if speller.changed else None


def _respelled_lambda(code: types.CodeType, owner: str) -> types.CodeType | None:
    """Of those on its line, the one that says what it says; None where several do, of two kinds."""
    fitting: dict[str, ast.Lambda] = {}
    for made in _lambdas(code.co_filename).get(code.co_firstlineno, ()):
        made = copy.deepcopy(made)
        _bare(made)
        plain = _compiled(made, code, owner)
        if plain is not None and _same(plain, code):
            fitting[ast.dump(made)] = made
    if len(fitting) != 1:
        return None
    (made,) = fitting.values()
    speller = _Speller({*code.co_varnames, *code.co_cellvars, *code.co_freevars})
    made.body = speller.visit(made.body)
    return _compiled(made, code, owner) if speller.changed else None


@functools.lru_cache(maxsize=64)
def _lambdas(file: str) -> dict[int, list[ast.Lambda]]:
    """Those of a file, by their lines."""
    found: dict[int, list[ast.Lambda]] = {}
    try:
        whole = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return found
    for node in ast.walk(whole):
        if isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, []).append(node)
    return found


_COMPUTES = frozenset(
    code for name, code in dis.opmap.items() if name.startswith(("BINARY", "COMPARE", "INPLACE"))
)


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two codes say the same: calls of what a file imports may be compiled otherwise."""

    first = {one.co_firstlineno, other.co_firstlineno}  # one of them may begin at its decorator

    def told(code: types.CodeType) -> tuple:
        steps = zip(code.co_code[::2], code.co_code[1::2])
        lines = {line for _, _, line in code.co_lines()} - first
        computed = [step for step in steps if step[0] in _COMPUTES]
        return code.co_names, code.co_varnames, lines, computed, len(code.co_consts)

    return told(one) == told(other) and all(
        _same(a, b) if isinstance(a, types.CodeType) and isinstance(b, types.CodeType)
        else type(a) is type(b) and _plain_name(a) == _plain_name(b)
        for a, b in zip(one.co_consts, other.co_consts)
    )  # fmt: skip


def _plain_name(const: Any) -> Any:
    """Before 3.11 the full name of a function inside is a constant, with where it is written."""
    if isinstance(const, str) and ".<locals>." in const:
        return const.rpartition(".")[2]
    return const


def _written(code: types.CodeType) -> tuple[ast.stmt, int]:
    """A function as it stands in its file, and the line that its tree counts from."""
    first, last = code.co_firstlineno, max(_lines(code))
    lines = linecache.getlines(code.co_filename)[first - 1 : last + 30]
    indented = lines[0][:1].isspace()  # kept as it is, strings over several lines and all
    head = ["if 1:\n"] if indented else []
    for end in range(last - first + 1, len(lines) + 1):
        try:
            (made,) = ast.parse("".join(head + lines[:end])).body
        except SyntaxError:
            continue  # the last statement goes on
        if indented:
            assert isinstance(made, ast.If)
            (made,) = made.body
        return made, first - len(head)
    raise SyntaxError(f"no function ends after line {last}")


def _lines(code: types.CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line is not None)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _lines(const)


def _bare(made: ast.FunctionDef | ast.Lambda) -> None:
    """Without what is worked out where a function is defined: the copy takes it over."""
    given = made.args
    given.defaults = []
    if isinstance(made, ast.FunctionDef):
        made.decorator_list, made.returns = [], None
    given.kw_defaults = [None] * len(given.kwonlyargs)
    for a in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if a is not None:
            a.annotation = None


def _compiled(
    made: ast.FunctionDef | ast.Lambda, code: types.CodeType, owner: str
) -> types.CodeType | None:
    """Inside of its class, for names with two underscores and super(), and of its closure."""
    free = [n for n in code.co_freevars if n != "__class__"] + [f"_hx_{n}" for n in HELPERS]
    outer: Any = ast.parse("def outer():\n  pass").body[0]
    stated: Any = ast.Expr(made) if isinstance(made, ast.Lambda) else made
    inner: Any = stated
    if "__class__" in code.co_freevars or owner not in ("", "<locals>"):
        inner = ast.parse("class owner: pass").body[0]
        inner.name, inner.body = owner or "owner", [stated]
    names: list[ast.expr] = [ast.Name(n, ast.Store()) for n in free]
    outer.body = [ast.Assign(targets=names, value=ast.Constant(None)), inner]
    if inner is made and code.co_name not in free:  # one that names itself means a global
        outer.body.insert(0, ast.Global(names=[code.co_name]))
    module = ast.fix_missing_locations(ast.Module([outer], []))
    try:
        everything = compile(module, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    new = _find(everything, code.co_name)
    if new is None or not hasattr(code, "co_qualname"):  # before 3.11
        return new
    return new.replace(co_qualname=code.co_qualname)


def _find(code: types.CodeType, name: str) -> types.CodeType | None:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found = const if const.co_name == name else _find(const, name)
            if found is not None:
                return found
    return None


class _Speller(ast.NodeTransformer):
    """Calls in place of the operations that lose a size."""

    def __init__(self, local: set[str], lists: Container[str] = ()) -> None:
        self.changed = False
        self.local = local  # names that are not what they are everywhere
        self.lists = lists  # names of lists that are made here

    def _called(self, at: ast.AST, helper: str, *args: ast.expr) -> ast.expr:
        self.changed = True
        name = ast.copy_location(ast.Name(f"_hx_{helper}", ast.Load()), at)
        return ast.copy_location(ast.Call(name, list(args), []), at)

    def visit_If(self, node: ast.If | ast.IfExp | ast.While) -> Any:
        self.generic_visit(node)
        node.test = self._tested(node.test)
        return node

    visit_IfExp = visit_While = visit_If

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = self._tested(node.operand)
        return node

    def _tested(self, node: ast.expr) -> ast.expr:
        """Where it only matters whether a list has anything in it."""
        if isinstance(node, ast.BoolOp):
            node.values = [self._tested(each) for each in node.values]
        if isinstance(node, ast.Name) and node.id in self.lists:
            return self._called(node, "filled", node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        kind = OPERATORS.get(type(node.op))
        if kind is None or not _maybe_float(node.left) or not _maybe_size(node.right):
            return node
        return self._called(node, kind[0], node.left, node.right)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        kind = OPERATORS.get(type(node.op))
        if kind is None or not isinstance(node.target, ast.Name) or not _maybe_size(node.value):
            return node
        old = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = self._called(node, f"{kind[0]}_there", old, node.value)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "numel" and not node.args:
            return self._called(node, "count", node.func.value)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if getattr(node.func, "attr", name) in KINDS and node.args and not node.keywords:
            return self._called(node, "made", node.func, *node.args)
        helper = _BUILTINS.get(name)
        plain = (
            len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
        )
        if helper is None or not plain or name in self.local:
            return node
        (given,) = node.args
        if name == "list" and "reversed" not in self.local and _is_reversed(given):
            return self._called(node, "backwards", *given.args)
        return self._called(node, helper, given)

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """[i for i in x] is list(x)."""
        self.generic_visit(node)
        each, *more = node.generators
        name = node.elt.id if isinstance(node.elt, ast.Name) else ""
        same = isinstance(each.target, ast.Name) and each.target.id == name
        if more or each.ifs or each.is_async or not same:
            return node
        return self._called(node, "listed", each.iter)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        index = node.slice
        if isinstance(index, ast.Slice):
            bounds = [index.lower, index.upper, index.step]
            if not any(b is not None and _maybe_size(b) for b in bounds):
                return node
            nothing = ast.copy_location(ast.Constant(None), node)
            given = [nothing if b is None else b for b in bounds]
            return self._called(node, "part", node.value, *given)
        if isinstance(index, ast.Tuple) or not _maybe_size(index):
            return node
        return self._called(node, "at", node.value, index)


def _lists(made: ast.AST) -> set[str]:
    """The names of lists that a function makes."""
    found = set()
    for node in ast.walk(made):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts))
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.List | ast.ListComp):
                    found.add(name.id)
    return found


def _is_reversed(node: ast.expr) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) != 1:
        return False
    return isinstance(node.func, ast.Name) and node.func.id == "reversed"


def _maybe_float(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _maybe_float(node.operand)
    if isinstance(node, ast.Constant):
        return type(node.value) is float
    return isinstance(
        node, (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Call, ast.IfExp)
    )


def _maybe_size(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _maybe_size(node.operand)
    return isinstance(
        node, (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Call, ast.IfExp)
    )

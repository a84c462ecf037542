"""The model's own functions, respelled where Python would make a plain number of a size.

`int(n)`, `float(n)`, `1.5 * n` and `torch.Tensor([n])` never ask what `n` is, and `table[n]` tells
nobody. For the time of a recording the functions that say such things run a copy that asks first:

    int(h * 0.5)        whole(h * 0.5)
    self.scale / n      divided(self.scale, n)
    n in {4, 8}         inside(n, {4, 8})
    f"{h}x{w}"          written((h, -1, ""), "x", (w, -1, ""))

Only functions that the model can reach (`reachable_functions`) are looked at, and only those whose
source is there; each is compiled once, in its own file and at its own lines.
"""

from __future__ import annotations

import ast
import copy
import dis
import functools
import inspect
import linecache
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ...ir.knowledge import Knowledge
from .. import patching
from . import handed_sizes, reachable_functions, select_rewriter
from .counted_names import kept
from .speller import BUILTINS, GIVES_NUMBER, METHODS, Speller, lists_made_in
from .spellings import HELPERS, KINDS

_WORDS = {
    *("getattr", "hasattr", "setattr", "delattr", "format", "sort", "zip", "any", "all"),
    *BUILTINS,
    *METHODS,
    *(handed_sizes.METHODS - {*dir(torch.Tensor)}),
}
_RUNS_LATER = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR


def hooks(functions: Iterable[types.FunctionType]) -> dict[Any, Callable]:
    """The handlers that run the respelled copies of functions, by function.

    A model can reach many more functions than it calls: a copy is made when it is called first.
    """
    found = {}
    for function in functions:
        # A function rewritten by the user no longer does what its source says.
        if patching.is_hooked(function) or not _may_be_respelled(function):
            continue
        if id(patching.own_code(function)) in _known:
            copy = respelled(function)
            if copy is not None:
                found[function] = _instead(copy)
        else:
            found[function] = _when_called(function)
    return found


def reaches_more(knowledge: Knowledge) -> bool:
    """Return True if code that ran in the recording was not respelled but has to be.

    The next recording of the model respells it.
    """
    known = {*map(id, knowledge.respelled), *(id(copy) for _, copy in _known.values())}
    known |= knowledge.looked_for  # the search looks at everything that Python holds
    codes = [code for code in knowledge.met if id(code) not in known]
    knowledge.looked_for.update(map(id, codes))
    found = [function for function in reachable_functions.running(codes) if respelled(function)]
    knowledge.respelled.update(function.__code__ for function in found)
    knowledge.unnamed.extend(found)
    return bool(found)


def beside(function: Callable) -> dict[Any, Callable]:
    """The handlers for one function under its decorators, and for those of its module that it calls."""
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
        named = reachable_functions.names(each.__code__) & each.__globals__.keys()
        near = [each.__globals__[name] for name in named]
        own = [x for x in near if getattr(x, "__module__", None) == each.__module__]
        front += [inspect.unwrap(x) for x in own if callable(x)]
    return found


def forget_files() -> Callable[[], None]:
    """Return a function that drops the lines of files read since: as many as a library has."""
    had = set(linecache.cache)

    def forget() -> None:
        for file in linecache.cache.keys() - had:
            entry: Any = linecache.cache.get(file)
            if entry is not None and len(entry) > 1 and entry[1] is not None:  # there is a file
                linecache.cache.pop(file, None)

    return forget


def _instead(copy: Callable) -> Callable:
    return lambda original, args, kwargs: copy(*args, **kwargs)


def _when_called(function: types.FunctionType) -> Callable:
    copy: Callable | None = None

    def handler(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        nonlocal copy
        if copy is None and _reader.reads:
            return original(*args, **kwargs)
        if copy is None:
            _reader.reads = True
            try:
                with patching.bare():  # Python's own modules, as they are
                    copy = respelled(function) or original
            finally:
                _reader.reads = False
        return copy(*args, **kwargs)

    return handler


class _Reader(threading.local):
    """Tells whether this thread reads the source of a function.

    That may call other functions of the model, through what somebody does when files are opened.
    """

    reads = False


_reader = _Reader()


# Keyed by identity: like codes of two files are equal. The first code keeps its id in use.
_known: dict[int, tuple[types.CodeType, types.CodeType | None]] = {}


def _may_be_respelled(function: types.FunctionType) -> bool:
    code = patching.own_code(function)
    if id(code) not in _known and not _may_lose(code):
        if not handed_sizes.names(code, function.__globals__):
            _known[id(code)] = code, None
    known = _known.get(id(code))
    return (known is None or known[1] is not None) and (
        function.__globals__.keys().isdisjoint(BUILTINS)
    )


def respelled(function: types.FunctionType) -> Callable | None:
    """A copy of the function that keeps sizes; None if nothing in it loses them."""
    if not _may_be_respelled(function):
        return None
    code = patching.own_code(function)
    if id(code) not in _known:
        path = getattr(code, "co_qualname", function.__qualname__)  # new in 3.11
        owner = path.rpartition(".")[0].rpartition(".")[2]
        readers = handed_sizes.names(code, function.__globals__)
        _known[id(code)] = code, _respelled(code, owner, readers)
    _, new = _known[id(code)]
    if new is None:
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
_LOOKS_UP = ("BINARY_SUBSCR", "BINARY_SLICE", "STORE_SUBSCR", "CONTAINS_OP", "BUILD_STRING",
             "FORMAT_VALUE", "BINARY_MODULO", "COMPARE_OP", "IS_OP")  # fmt: skip
_BINARY_OP = dis.opmap.get("BINARY_OP")  # since 3.11, for all operators
_REMAINDERS = {
    (_BINARY_OP, number)
    for number, (_, sign) in enumerate(getattr(dis, "_nb_ops", ()))
    if sign in ("%", "%=")
}
_LOOP = dis.opmap["FOR_ITER"]
_SUBSCRIPTS = {dis.opmap[name] for name in _LOOKS_UP if name in dis.opmap}


def _may_lose(code: types.CodeType) -> bool:
    """Return True for code that may make a plain number of a size.

    It names int, float or type, has a float in it, fills a list, takes something out of
    one, computes beside a shape, writes a text, compares, or looks something up.
    """
    if code.co_flags & _RUNS_LATER or code.co_name.strip("<>") not in (code.co_name, "lambda"):
        return False
    words = set(reachable_functions.names(code))
    sizes = {"int", "float", "type", "shape", "size", "numel", "append", "stack", "cat", *KINDS}
    floats = any(type(c) is float for c in code.co_consts)
    if code.co_name in GIVES_NUMBER:
        return True
    if words & (sizes | _WORDS) or "range" in words or floats or _comprehends(code):
        return True
    if _LOOP in code.co_code[::2]:
        return True
    steps = {*zip(code.co_code[::2], code.co_code[1::2])}
    return not _SUBSCRIPTS.isdisjoint(code.co_code[::2]) or not _REMAINDERS.isdisjoint(steps)


def _comprehends(code: types.CodeType) -> bool:
    """Return True for a list comprehension, which is a function of its own before Python 3.12."""
    inner = (c.co_name for c in code.co_consts if isinstance(c, types.CodeType))
    return "<listcomp>" in inner or dis.opmap["LIST_APPEND"] in code.co_code[::2]


def _respelled(code: types.CodeType, owner: str, readers: frozenset[str]) -> types.CodeType | None:
    if code.co_name == "<lambda>":
        return _respelled_lambda(code, owner, readers)
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
    lists, counted = lists_made_in(made), kept(made)
    selects = select_rewriter.rewrite_loops(made, lists)
    readers = readers | handed_sizes.imported(made)
    speller = Speller(_own_names(code), lists, readers, counted, made.name)
    made = speller.visit_body(made)
    return _compiled(made, code, owner) if speller.changed or selects else None


def _respelled_lambda(
    code: types.CodeType, owner: str, readers: frozenset[str]
) -> types.CodeType | None:
    """The copy of a lambda; None if several on its line have the same code and differ as copies."""
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
    speller = Speller(_own_names(code), readers=readers)
    made.body = speller.visit(made.body)
    return _compiled(made, code, owner) if speller.changed else None


def _own_names(code: types.CodeType) -> set[str]:
    """The names of variables in a function, and in those inside of it."""
    inside = [_own_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return {*code.co_varnames, *code.co_cellvars, *code.co_freevars}.union(*inside)


@functools.lru_cache(maxsize=64)
def _lambdas(file: str) -> dict[int, list[ast.Lambda]]:
    """Return the lambdas of a file, by line."""
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
    """Return True if two codes do the same: calls of imported names may be compiled otherwise."""

    first = {one.co_firstlineno, other.co_firstlineno}  # one of them may begin at its decorator

    def summary(code: types.CodeType) -> tuple:
        steps = zip(code.co_code[::2], code.co_code[1::2])
        lines = {line for _, _, line in code.co_lines()} - first
        computed = [step for step in steps if step[0] in _COMPUTES]
        return code.co_names, code.co_varnames, lines, computed, len(code.co_consts)

    return summary(one) == summary(other) and all(
        _same(a, b) if isinstance(a, types.CodeType) and isinstance(b, types.CodeType)
        else type(a) is type(b) and _plain_name(a) == _plain_name(b)
        for a, b in zip(one.co_consts, other.co_consts)
    )  # fmt: skip


def _plain_name(const: Any) -> Any:
    """Shorten the full name of an inner function, which before 3.11 contains its place."""
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
    """Remove the parts that run where a function is defined: the copy takes over their results."""
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
    """Compile inside of its class and closure, for super() and names with two underscores."""
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

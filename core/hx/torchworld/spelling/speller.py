"""A rewriter of a function's tree: calls of helpers in place of what loses a size."""

from __future__ import annotations

import ast
import copy
from collections.abc import Container, Mapping
from typing import Any, TypeGuard

from . import asked_together, handed_sizes
from .loop_speller import LoopSpeller, collects
from .spellings import KINDS, OPERATORS, SIGNS

# The functions called in their place.
BUILTINS = {"int": "whole", "float": "real", "type": "kind", "list": "listed",
            "str": "as_text", "repr": "as_repr", "hex": "as_hex", "oct": "as_octal",
            "bin": "as_binary"}  # fmt: skip
METHODS = {
    "get": "got",
    "pop": "popped",
    "setdefault": "got_or_set",
    "join": "put_together",
    "format": "formatted",
}
# Methods whose result compiled code makes a plain number.
GIVES_NUMBER = frozenset(
    {"__hash__", "__len__", "__index__", "__length_hint__", "__int__", "__float__"}
)
_ATTRIBUTES = {"getattr": "attribute", "hasattr": "has_attribute", "setattr": "set_attribute",
               "delattr": "set_attribute"}  # fmt: skip


class Speller(LoopSpeller):
    """A rewriter that puts calls in place of the operations that lose a size."""

    def __init__(
        self,
        local: set[str],
        lists: Container[str] = (),
        readers: Container[str] = (),
        kept: Mapping[int, list[ast.expr]] | None = None,
        name: str = "",
    ) -> None:
        super().__init__(kept or {})
        self.name = name  # of the function
        self.readers = readers  # names of what may read a number out of a size
        self.local = local  # names that are not what they are everywhere
        self.lists = lists  # names of lists that are made here

    def visit_If(self, node: ast.If | ast.IfExp) -> Any:
        self.generic_visit(node)
        node.test = self._tested(node.test)
        return node

    visit_IfExp = visit_If

    def visit_While(self, node: ast.While) -> Any:
        node.test = self._tested(node.test)
        return super().visit_While(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = self._tested(node.operand)
        return node

    def _tested(self, node: ast.expr) -> ast.expr:
        """Rewrite the test of a list, where it only matters whether it has items."""
        if isinstance(node, ast.BoolOp):
            node.values = [self._tested(each) for each in node.values]
        if isinstance(node, ast.Name) and node.id in self.lists:
            return self._called(node, "filled", node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        kind = OPERATORS.get(type(node.op))
        of_sizes = _maybe_float(node.left) and _maybe_size(node.right)
        if kind is None or not (of_sizes or _may_format(node)):
            return node
        return self._called(node, kind[0], node.left, node.right)

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        if len(node.targets) == 1 and not isinstance(node.value, ast.Constant):
            node.value = self._stored(node.targets[0], node.value)
        return node

    def _stored(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """Rewrite the value of rows[0] = n and header.rows = n, which may be kept as a number."""
        owner = target.value if isinstance(target, (ast.Subscript, ast.Attribute)) else None
        if owner is None or not _is_named(owner):
            return value
        if isinstance(target, ast.Subscript):
            return self._called(value, "stored", value, _loaded(owner))
        assert isinstance(target, ast.Attribute)
        if not _maybe_size(value):
            return value
        return self._called(value, "set_as", value, _loaded(owner), ast.Constant(target.attr))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        twice = _is_named(node.target) or _is_named_item(node.target)  # it may be evaluated twice
        self.generic_visit(node)
        kind = OPERATORS.get(type(node.op))
        if kind is None or not twice or not _maybe_size(node.value):
            return node
        old = _loaded(node.target)
        value = self._called(node, f"{kind[0]}_there", old, node.value)
        value = self._stored(node.target, value)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Return(self, node: ast.Return) -> ast.Return:
        self.generic_visit(node)
        if self.name in GIVES_NUMBER and node.value is not None:
            node.value = self._called(node, "returned", node.value, ast.Constant(self.name))
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        return node  # what an error says decides nothing

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        self.generic_visit(node)
        pieces: list[ast.expr] = []
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                form = each.format_spec or ast.Constant("")
                each = ast.Tuple([each.value, ast.Constant(each.conversion), form], ast.Load())
            pieces.append(ast.copy_location(each, node))
        if all(isinstance(each, ast.Constant) for each in pieces):
            return node
        return self._called(node, "written", *pieces)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        node.value = self.visit(node.value)
        if node.format_spec is not None:
            node.format_spec = self.visit(node.format_spec)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) > 1 and all(map(_is_simple, node.comparators[:-1])):  # a < b < c
            pairs = zip([node.left, *node.comparators], node.ops, node.comparators)
            each: list[ast.expr] = [
                ast.Compare(copy.deepcopy(a), [sign], [b]) for a, sign, b in pairs
            ]
            both = ast.copy_location(ast.BoolOp(ast.And(), each), node)
            return self.visit(ast.fix_missing_locations(both))
        self.generic_visit(node)
        sign = SIGNS.get(type(node.ops[0]))
        if sign is not None and len(node.ops) == 1:
            left, right = node.left, node.comparators[0]
            if any(isinstance(each, (ast.Tuple, ast.List)) for each in (left, right)) or (
                _maybe_float(left) and _maybe_size(right)
            ):
                return self._called(node, sign[0], left, right)
            return node
        helper = _QUESTIONS.get(type(node.ops[0]))
        if helper is None or len(node.ops) > 1:
            return node
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            if _is_nothing(node.left) or _is_nothing(node.comparators[0]):
                return node
        return self._called(node, helper, node.left, node.comparators[0])

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id.startswith("_hx_"):
            return self.generic_visit(node)
        together = asked_together.helper_for(node, self.local)
        if together is not None:
            given = asked_together.without_questions(node.args[0], self.local, self._called)
            node.args = [self._called(given, together, self.visit(given))]
            return node
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "numel" and not node.args:
            return self._called(node, "count", node.func.value)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        of_texts = self._of_texts(node, name) if node.args else None
        if of_texts is not None:
            return of_texts
        if name == "zip" and name not in self.local:
            return self._zipped(node)
        if getattr(node.func, "attr", name) in KINDS and node.args and not node.keywords:
            return self._called(node, "made", node.func, *node.args)
        if collects(node, self.local):
            return self._called(node, "collected", node.func, *node.args)
        return self._of_builtin(node, name) or self._handed(node)

    def _of_builtin(self, node: ast.Call, name: str) -> ast.expr | None:
        """Rewrite int(n), str(n), list(x) and np.int64(n)."""
        if name in self.local or node.keywords or not node.args:
            return None
        if name == "int" and len(node.args) == 2:
            return self._called(node, "whole", *node.args)  # of a text, with a base
        given = node.args[0]
        if len(node.args) != 1 or isinstance(given, ast.Starred):
            return None
        if getattr(node.func, "attr", name) in ("int64", "float64"):
            return self._called(node, "numbered", node.func, given)
        if name == "list" and "reversed" not in self.local and _is_reversed(given):
            return self._called(node, "backwards", *given.args)
        helper = BUILTINS.get(name)
        return None if helper is None else self._called(node, helper, given)

    def _handed(self, node: ast.Call) -> ast.expr:
        """Rewrite json.dumps(n), where the function may be compiled."""
        given = [*node.args, *(each.value for each in node.keywords)]
        constant = all(isinstance(each, ast.Constant) for each in given)
        if not constant or getattr(node.func, "attr", "") == "sort":
            if handed_sizes.may_read(node.func, self.local, self.readers):
                node.func = self._called(node.func, "passed", node.func)
        return node

    def _zipped(self, node: ast.Call) -> ast.expr:
        """Rewrite zip(x, [1, 2]) and zip(x, self.layers), where x may have any number of rows."""
        fixed = [
            ast.Constant(i)
            for i, each in enumerate(node.args)
            if isinstance(each, (ast.List, ast.Tuple, ast.Attribute))
        ]
        if not 0 < len(fixed) < len(node.args):
            return node
        made: Any = self._called(node, "zipped", ast.Tuple([*fixed], ast.Load()), *node.args)
        made.keywords = node.keywords
        return made

    def _of_texts(self, node: ast.Call, name: str) -> ast.expr | None:
        """Rewrite table.get(n), "x".join(texts), "{}".format(n), getattr(x, text)."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            made: Any = self._called(node, METHODS[node.func.attr], node.func.value, *node.args)
            made.keywords = node.keywords
            return made
        if name == "format" and name not in self.local and not node.keywords:
            return self._called(node, "as_format", *node.args)
        if name in _ATTRIBUTES and name not in self.local and len(node.args) > 1:
            return self._called(node, _ATTRIBUTES[name], *node.args)
        return None

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """Rewrite [i for i in x] as list(x)."""
        each, *more = node.generators
        name = node.elt.id if isinstance(node.elt, ast.Name) else ""
        same = isinstance(each.target, ast.Name) and each.target.id == name
        if more or each.ifs or each.is_async or not same:
            return self._collected(node)
        return self._called(node, "listed", self.visit(each.iter))

    def visit_List(self, node: ast.List) -> Any:
        """Rewrite [*x] as list(x)."""
        self.generic_visit(node)
        only = node.elts[0] if len(node.elts) == 1 and isinstance(node.ctx, ast.Load) else None
        return self._called(node, "listed", only.value) if isinstance(only, ast.Starred) else node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        index = node.slice
        known = isinstance(index, ast.Constant) or _maybe_size(index)  # a key, beside a size
        if not isinstance(node.ctx, ast.Load) and _is_named(node.value) and known:
            owner = copy.deepcopy(node.value)
            node.slice = self._called(index, "place", owner, index)
        if not isinstance(node.ctx, ast.Load):
            return node
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


def lists_made_in(made: ast.AST) -> set[str]:
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


_QUESTIONS: dict[type, str] = {
    ast.In: "inside", ast.NotIn: "outside", ast.Is: "identical", ast.IsNot: "different",
}  # fmt: skip


def _is_nothing(node: ast.expr) -> bool:
    """Return True for None, True, False and texts, which no size is."""
    return isinstance(node, ast.Constant) and type(node.value) is not int


def _loaded(node: ast.expr) -> Any:
    """A name that is stored to, as it is read."""
    copied: Any = copy.deepcopy(node)
    copied.ctx = ast.Load()
    return copied


def _is_named(node: ast.expr) -> bool:
    """Return True for `rows` and `self.rows`, which may be evaluated twice."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_named(node.value))


def _is_named_item(node: ast.expr) -> bool:
    """Return True for `rows[0]` and `self.rows[i]`."""
    return isinstance(node, ast.Subscript) and _is_named(node.value) and _is_simple(node.slice)


def _is_simple(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Constant))


def _is_reversed(node: ast.expr) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) != 1:
        return False
    return isinstance(node.func, ast.Name) and node.func.id == "reversed"


def _may_format(node: ast.BinOp) -> bool:
    """Return True if `%` may write a text."""
    of_text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, (str, bytes))
    may = of_text or (_maybe_float(node.left) and isinstance(node.right, ast.Tuple))
    return may and isinstance(node.op, ast.Mod)


def _maybe_float(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _maybe_float(node.operand)
    if isinstance(node, ast.Constant):
        return type(node.value) in (float, complex)
    return isinstance(
        node, (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Call, ast.IfExp)
    )


def _maybe_size(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _maybe_size(node.operand)
    return isinstance(
        node, (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Call, ast.IfExp)
    )

"""`any` and `all` over tensors of one element, in forms that ask one question for all of them.

    any(row.max() > 1 for row in x)           any(any_together(row.max() > 1 for row in x))
    all(float(t) < 0.5 for t in losses)       all(all_together(number_in(t) < 0.5 for t in losses))

Python asks one after the other, and the answer to each decides whether the next is asked. So a
graph would need a branch for each. The function itself stays where it is: it asks, in the model's line.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

import torch

from . import followed_functions

NAMES = {"any": "any_together", "all": "all_together"}


def any_together(items: Iterable[Any]) -> Iterable[Any]:
    """Return items of which `any` is the same as of the given ones."""
    return _together(items, torch.any)


def all_together(items: Iterable[Any]) -> Iterable[Any]:
    """Return items of which `all` is the same as of the given ones."""
    return _together(items, torch.all)


def _together(items: Iterable[Any], answer_of: Callable) -> Iterable[Any]:
    """Return one tensor, if all items are tensors of one element; else the items."""
    rest = iter(items)
    tensors: list[torch.Tensor] = []
    try:
        for each in rest:
            if not _is_answer(each):
                return itertools.chain(tensors, (each,), rest)
            tensors.append(each)
    except Exception as error:  # raised again if `any` or `all` reaches this item
        return itertools.chain(tensors, _raising(error))
    if len(tensors) < 2:
        return tensors
    return [answer_of(torch.stack([each.reshape(()).bool() for each in tensors]))]


def _raising(error: Exception) -> Iterator[Any]:
    """Raise an error in place of the next item."""
    raise error
    yield


def _is_answer(x: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(x, torch.Tensor) and x.numel() == 1


def truth_in(x: Any) -> Any:
    """bool(x), where x is asked for its truth later"""
    return x if _is_answer(x) else bool(x)


def number_in(x: Any) -> Any:
    """float(x), where the number is compared, or asked for its truth, and nothing else"""
    return _number(x) if _is_answer(x) else followed_functions.real(x)


def item_in(x: Any) -> Any:
    """x.item(), where the number is compared, or asked for its truth, and nothing else"""
    return _number(x) if _is_answer(x) else x.item()


def _number(x: torch.Tensor) -> Any:
    """Return a tensor that compares as the number in it does: Python computes in float64."""
    if x.dtype.is_complex:
        return x.item()
    return x.reshape(()).double() if x.dtype.is_floating_point else x.reshape(()).long()


HELPERS: dict[str, Callable] = {
    "any_together": any_together,
    "all_together": all_together,
    "truth_in": truth_in,
    "number_in": number_in,
    "item_in": item_in,
}
_CONVERSIONS = {"bool": "truth_in", "float": "number_in"}


def helper_for(node: ast.Call, local: set[str]) -> str | None:
    """Return the name of the form for any(...) or all(...); None for any other call."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in local or node.keywords or len(node.args) != 1:
        return None
    return None if isinstance(node.args[0], ast.Starred) else NAMES.get(name)


def without_questions(
    given: ast.expr, local: set[str], called: Callable[..., ast.expr]
) -> ast.expr:
    """Rewrite a comprehension so that it yields tensors, without converting them to numbers or bools."""
    if isinstance(given, (ast.GeneratorExp, ast.ListComp)):
        given.elt = _tail(given.elt, local, called)
    return given


def _tail(node: ast.expr, local: set[str], called: Callable[..., ast.expr]) -> ast.expr:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], _SIGNS):
        node.left = _tail(node.left, local, called)
        node.comparators = [_tail(each, local, called) for each in node.comparators]
    if not isinstance(node, ast.Call) or node.keywords:
        return node
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return called(node, "item_in", node.func.value)
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in local or len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
        return node
    return called(node, _CONVERSIONS[name], *node.args) if name in _CONVERSIONS else node


_SIGNS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)

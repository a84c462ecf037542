"""Functions of Python that would make a plain number or a text of a size, in forms that keep it."""

from __future__ import annotations

import math
import operator
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

from ...ir.sizes import departures, dims, size_lists, size_texts
from ...ir.sizes.bounds import never_negative
from ...ir.sizes.departures import own_number
from . import lookups, rounds


def whole(x: Any = 0, *more: Any, **named: Any) -> Any:
    """int(x)"""
    more = (*more, *named.values())
    x = x if more else number_of(x, "__int__")
    if type(x) is size_texts.SizeText:
        return size_texts.followed(int, x, *more)
    if more or not dims.is_dynamic(x):
        return int(x, *more)
    return math.trunc(x)


def real(x: Any = 0.0) -> Any:
    """float(x)"""
    if type(x) is size_texts.SizeText:
        return size_texts.followed(float, x)
    x = number_of(x, "__float__")
    return x * 1.0 if type(x) is dims.Dim else x if type(x) is dims.DimFloat else float(x)


def number_of(x: Any, method: str) -> Any:
    """The number in a tensor of one element, asked for by a name that the doors know, or that of an
    object, as its own method returns it: Python would make a plain number of it.
    """
    if isinstance(x, torch.Tensor):
        return x.item() if x.numel() == 1 and not x.dtype.is_complex else x
    own = getattr(type(x), method, None)
    if type(own) is types.FunctionType and not dims.is_dynamic(x):
        found = own_number(own, x)
        return found if isinstance(found, (int, float)) else x
    return x


def hashed(x: Any) -> Any:
    """hash(x), which for a size is the number itself"""
    found = x if isinstance(x, torch.Tensor) else number_of(x, "__hash__")
    return found if type(found) is dims.Dim and never_negative(found.poly) else hash(found)


def returned(number: Any, name: str) -> Any:
    """number, in the method of an object that returns it: `return self.n` in `__hash__`"""
    if dims.is_dynamic(number):
        departures.returned(dims.spelled(number), name, *dims.goes_on(number))
    return number


def indexed(x: Any) -> Any:
    """operator.index(x)"""
    x = number_of(x, "__index__")
    return x if type(x) is dims.Dim else operator.index(x)


def listed(*given: Any) -> list:
    """list(x)"""
    if not given:
        return []
    (x,) = given
    return x.copy() if type(x) is size_lists.Whole else rounds.collected(lambda items: [*items], x)


def interned(text: Any) -> str:
    """sys.intern(text)"""
    return text if type(text) is size_texts.SizeText else sys.intern(text)


def warned(message: Any, category: Any = None, stacklevel: int = 1, **more: Any) -> None:
    """warnings.warn(message), which remembers the texts that it has shown"""
    warnings.warn(size_texts.all_plain(message), category, stacklevel + 1, **more)


# Maps the id of a function to the form that follows sizes. Not all functions can be compared.
FOLLOWED: dict[int, Callable] = {
    id(function): form
    for function, form in (
        (int, whole),
        (float, real),
        (operator.index, indexed),
        (hash, hashed),
        (str, lookups.as_text),
        (repr, lookups.as_repr),
        (hex, lookups.as_hex),
        (oct, lookups.as_octal),
        (bin, lookups.as_binary),
        (format, lookups.as_format),
        (list, listed),
        (sys.intern, interned),
        (warnings.warn, warned),
    )
}

"""Formulas of texts with sizes in them: which functions Python called, so that it can call them again.

A text is an atom: a function and its arguments, which are sizes, atoms of this kind, or plain. A
question about it has an answer at any size. The graph has no texts: what comes out of one is a size
again if it equals one at all sizes that are tried here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from ...budget import BUDGET
from .bounds import never_negative
from .comparisons import At, Unforeseen
from .numpy_scalars import spelled
from .size_operations import binary
from .size_polynomials import Atom, Poly

_N = Poly.of(Atom("size", ("n", 0), 0))  # stands for the size in a text


class NotFollowed(Exception):
    """An argument that no formula can hold."""


def text(number: Any, form: str = "") -> str:
    """The text of a number, in a formula."""
    return format(number, form)


def joined(*texts: str) -> str:
    return "".join(texts)


def unknown(text: str, *sizes: Any) -> str:
    """Return a text as it was in the recording; it depends on sizes in an unknown way."""
    return text


def _is_unknown(x: Any) -> bool:
    return isinstance(x, Atom) and (x.args[0] is unknown or any(map(_is_unknown, x.args)))


def given_by_name(function: Any, names: tuple[str, ...], *given: Any) -> Any:
    """Call a function whose last arguments have names."""
    plain = given[: -len(names)]
    return function(*plain, **dict(zip(names, given[-len(names) :])))


def item(items: Any, place: int) -> Any:
    return items[place]


def _tuple(*items: Any) -> tuple:
    return items


def _list(*items: Any) -> list:
    return [*items]


def whole(number: Any) -> Any:
    """Return a float as the integer that it equals, if it equals one."""
    return int(number) if float(number).is_integer() else number


def formula(x: Any) -> Any:
    """The formula of an argument: itself, where no size is in it."""
    own = getattr(x, "formula", None) if isinstance(x, str) else spelled(x)
    if isinstance(own, (Poly, Atom)):
        return own
    if isinstance(x, (tuple, list)):
        return Atom("text", (_list if isinstance(x, list) else _tuple, *map(formula, x)), x)
    if isinstance(x, slice):
        return Atom("text", (slice, *map(formula, (x.start, x.stop, x.step))), x)
    if x is None or isinstance(x, (str, int, float, bool, bytes)):
        return x
    raise NotFollowed


def called(function: Any, args: tuple, named: dict[str, Any], result: Any) -> Atom:
    """The formula of a call; raise NotFollowed if one of its arguments has none."""
    parts = [*map(formula, (*args, *named.values()))]
    if any(map(_is_unknown, parts)):
        raise NotFollowed
    if named:
        return Atom("text", (given_by_name, function, (*named,), *parts), result)
    return Atom("text", (function, *parts), result)


def equals_everywhere(found: Any, wanted: Any) -> bool:
    """Return True if a formula with one size in it equals another one, or a constant, at all sizes.

    Tried are all sizes up to a limit, and some far beyond it.
    """
    sizes = _sizes_in(found)
    return len(sizes) == 1 and _equal_everywhere(
        _with_any_size(found),
        wanted if isinstance(wanted, Poly) else _with_any_size(wanted),
        all(map(never_negative, sizes)),
    )


def number_of_digits(found: Atom, number: int) -> Poly | None:
    """The size, or some digits of it, that a number read from a text is at all sizes; None for others."""
    sizes = _sizes_in(found)
    if len(sizes) != 1 or number < 0:
        return None
    (size,) = sizes
    digits = range(len(str(BUDGET.sizes.one_by_one)))
    for skipped in digits:
        for count in digits:
            if equals_everywhere(found, _digits(_N, skipped, count)):
                return _digits(size, skipped, count)
    return None


def _digits(size: Poly, skipped: int, count: int) -> Poly:
    """A number without its last digits, and of these the last ones; all for a count of 0."""
    rest = binary("div", size, Poly.of(10**skipped))
    return binary("mod", rest, Poly.of(10**count)) if count else rest


def _sizes_in(x: Any) -> set[Poly]:
    """The sizes in a formula; several if one says how long a text is: large ones cannot be tried."""
    if isinstance(x, Poly):
        return {x} if x.constant is None else set()
    if not isinstance(x, Atom):
        return set()
    found = set[Poly]().union(*map(_sizes_in, x.args))
    as_text = x.kind != "text" or x.args[0] is text
    return found if as_text or not any(isinstance(a, Poly) for a in x.args) else {*found, _N}


def _with_any_size(x: Any) -> Any:
    """A formula with the same size in place of each of its own."""
    if isinstance(x, Poly):
        return _N if x.constant is None else x
    if not isinstance(x, Atom):
        return x
    return Atom(x.kind, tuple(map(_with_any_size, x.args)), None)


def _numbers(not_negative: bool) -> Iterator[int]:
    large = BUDGET.sizes.larger_inputs
    yield from (large + 3, 7, 10, 123, 98_765)
    yield from range(0 if not_negative else -large, large)
    power = 10_000
    while power < BUDGET.sizes.largest**2:
        yield from (power - 1, power, power + power // 7)
        power *= 10


@functools.lru_cache(maxsize=1024)
def _equal_everywhere(found: Any, wanted: Any, not_negative: bool) -> bool:
    places = (At({"n": n}) for n in _numbers(not_negative))
    try:
        return all(_equal(at(found), at(wanted)) for at in places)
    except Unforeseen:  # a division by zero, or a number that was read from a tensor
        return False


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)

"""Texts in which sizes were written: `f"{h}x{w}"`, `str(x.shape)`.

A `SizeText` is a str that remembers these sizes. Compared with another text, it asks whether each of
them is the number that stands there, so that `table[f"{h}x{w}"]` decides as `h == 4 and w == 6` does.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import dims
from .departures import spelled

Piece = str | tuple[Any, str]  # what stands there, or a size with its format
# As the syntax tree names !s, !r and !a.
_CONVERSIONS: dict[int, Callable[[Any], str]] = {115: str, 114: repr, 97: ascii}
_PLACES = re.compile(r"%(.)")


class SizeText(str):
    """A text that remembers the sizes that were written in it."""

    pieces: tuple[Piece, ...]

    def __new__(cls, pieces: Iterable[Piece]) -> SizeText:
        pieces = tuple(pieces)
        plain = (p if isinstance(p, str) else format(dims.plain(p[0]), p[1]) for p in pieces)
        self = super().__new__(cls, "".join(plain))
        self.pieces = pieces
        return self

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, str):
            return NotImplemented
        numbers = self._read(other)
        if numbers is None:
            return False
        return all(size == n for size, n in zip(self._sizes(), numbers))

    def __ne__(self, other: object) -> Any:
        same = self == other
        return same if same is NotImplemented else not same

    __hash__ = str.__hash__

    def __add__(self, other: str) -> str:
        return joined(self, other)

    def __radd__(self, other: str) -> str:
        return joined(other, self)

    def __reduce__(self) -> Any:
        return str, (str.__str__(self),)

    def __copy__(self) -> SizeText:
        return self

    def __deepcopy__(self, memo: Any) -> SizeText:
        return self

    def number(self) -> Any:
        """The size, if nothing else stands there."""
        (only, *more) = self.pieces
        return only[0] if not isinstance(only, str) and not more else None

    def _sizes(self) -> list[Any]:
        return [piece[0] for piece in self.pieces if not isinstance(piece, str)]

    def _read(self, other: str) -> list[Any] | None:
        """The numbers that stand in a text where this one has its sizes; None if it differs."""
        if isinstance(other, SizeText):
            alike = [p if isinstance(p, str) else p[1:] for p in self.pieces]
            theirs = [p if isinstance(p, str) else p[1:] for p in other.pieces]
            if alike == theirs:
                return other._sizes()
        each = (re.escape(p) if isinstance(p, str) else r"( *-?\d+)" for p in self.pieces)
        found = re.fullmatch("".join(each), other, re.ASCII)
        if found is None:
            return None
        numbers = [int(text) for text in found.groups()]
        formats = [piece[1] for piece in self.pieces if not isinstance(piece, str)]
        as_written = (format(n, form) for n, form in zip(numbers, formats))
        return numbers if all(map(str.__eq__, as_written, found.groups())) else None


def text(pieces: Iterable[Piece]) -> str:
    """The text of some pieces, which remembers the sizes if there are any."""
    pieces = [*pieces]
    plain = [piece for piece in pieces if isinstance(piece, str)]
    if len(plain) == len(pieces):
        return "".join(plain)
    spelled()
    return SizeText(pieces)


def has_size(x: Any) -> bool:
    """Return True for a size, a text with one in it, and a tuple or a list of such."""
    if isinstance(x, (tuple, list)):
        return any(map(has_size, x))
    return type(x) is dims.Dim or type(x) is SizeText


def pieces_of(value: Any, conversion: int = -1, form: str = "") -> list[Piece]:
    """The pieces of `{value!r:form}`."""
    if conversion == -1 and type(value) is dims.Dim:
        return [(value, form)]
    if not form and has_size(value):
        if type(value) is SizeText and conversion != 114:
            return [*value.pieces]
        return _shown(value)
    value = _CONVERSIONS[conversion](value) if conversion != -1 else value
    return [format(value, form)]


def _shown(value: Any) -> list[Piece]:
    """The pieces of the repr of a size, or of a list, a tuple or a shape with sizes in it."""
    if type(value) is dims.Dim:
        return [(value, "")]
    if not isinstance(value, (tuple, list)) or type(value).__name__ not in _BRACKETS:
        return [repr(value)]
    first, last = _BRACKETS[type(value).__name__]
    found: list[Piece] = [first]
    for i, each in enumerate(value):
        found += [", "] * (i > 0) + _shown(each)
    return [*found, ",)" if type(value) is tuple and len(value) == 1 else last]


_BRACKETS = {"tuple": ("(", ")"), "list": ("[", "]"), "Size": ("torch.Size([", "])")}


def joined(*texts: str, between: str = "") -> str:
    """Texts one after the other, with another between them."""
    found: list[Piece] = []
    for i, each in enumerate(texts):
        found += [between] * (i > 0 and between != "")
        found += each.pieces if type(each) is SizeText else [each]
    return text(found)


def formatted(form: str, args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """form.format(*args, **named)"""
    formatter, found, count = string.Formatter(), list[Piece](), 0
    for before, name, inner, conversion in formatter.parse(form):
        found.append(before)
        if name is None:
            continue
        if name[:1] in ("", ".", "["):
            name, count = f"{count}{name}", count + 1
        value, _ = formatter.get_field(name, args, named)
        filled = formatted(inner or "", args, named) if inner else ""
        found += pieces_of(value, ord(conversion) if conversion else -1, filled)
    return text(found)


def by_percent(form: str, values: Any) -> str:
    """form % values"""
    if not has_size(values):
        return form % values
    kinds = [kind for kind in _PLACES.findall(form) if kind != "%"]
    values = values if isinstance(values, tuple) else (values,)
    if len(kinds) != len(values) or not set(kinds) <= set("sdir"):
        spelled()
        return form % values
    found, rest = list[Piece](), iter(values)
    for i, each in enumerate(_PLACES.split(form)):
        if not i % 2:
            found.append(each)
        elif each == "%":
            found.append("%")
        else:
            value = next(rest)
            sized = has_size(value)
            found += (
                pieces_of(value, 114 if each == "r" else -1) if sized else [f"%{each}" % (value,)]
            )
    return text(found)

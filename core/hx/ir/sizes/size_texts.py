"""Texts in which sizes were written: `f"{h}x{w}"`, `str(x.shape)`.

A `SizeText` is a str that remembers these sizes. Compared with another text, it asks whether each of
them is the number that stands there, so that `table[f"{h}x{w}"]` decides as `h == 4 and w == 6` does.
Any other method of a text is remembered with its arguments (`text_formulas`): a text that it returns
remembers its sizes as well, a truth value is a question about them, and a number is a size again,
where it is one.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
import string
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from . import departures, dims, text_formulas
from .comparisons import Asked, content
from .departures import decides, leaving, looked_up, spelled
from .size_polynomials import Atom

# Part of a text: plain letters, a size with its format, or the formula of another text with a size.
Piece = str | tuple[Any, str] | Atom
# As the syntax tree names !s, !r and !a.
_CONVERSIONS: dict[int, Callable[[Any], str]] = {115: str, 114: repr, 97: ascii}
_PLACES = re.compile(r"%(.)")
_DECIMAL = re.compile(r"0?\d*d?")  # formats whose texts can be read as numbers


class SizeText(str):
    """A text that remembers the sizes that were written in it."""

    pieces: tuple[Piece, ...]

    def __new__(cls, pieces: Iterable[Piece]) -> SizeText:
        pieces = tuple(pieces)
        self = super().__new__(cls, "".join(map(_plain_piece, pieces)))
        self.pieces = pieces
        return self

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, str):
            return NotImplemented
        if any(isinstance(piece, Atom) for piece in self.pieces):
            return followed(str.__eq__, self, other)
        numbers = self._read(other)
        if numbers is None:
            return False
        return all(size == n for size, n in zip(self._sizes(), numbers))

    def __ne__(self, other: object) -> Any:
        same = self == other
        return same if same is NotImplemented else not same

    def __hash__(self) -> int:
        looked_up(
            self, "read", f"{self.formula} is looked up in a set or a dict", *_content(self.formula)
        )
        return str.__hash__(self)

    def __add__(self, other: str) -> str:
        return joined(self, other)

    def __radd__(self, other: str) -> str:
        return joined(other, self)

    def __str__(self) -> str:
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(followed(list, self))

    def __bool__(self) -> bool:
        return followed(bool, self)

    def __reduce__(self) -> Any:
        _leaves("read", self.formula, "pickled")
        return str, (str.__str__(self),)

    def __copy__(self) -> SizeText:
        return self

    def __deepcopy__(self, memo: Any) -> SizeText:
        return self

    @functools.cached_property
    def formula(self) -> Atom:
        """The text as a function of its sizes."""
        each = [_formula_of(piece) for piece in self.pieces]
        only = each[0] if len(each) == 1 else None
        if isinstance(only, Atom):
            return only
        return Atom("text", (text_formulas.joined, *each), str.__str__(self))

    def _sizes(self) -> list[Any]:
        return [piece[0] for piece in self.pieces if isinstance(piece, tuple)]

    def _read(self, other: str) -> list[Any] | None:
        """The numbers that stand in a text where this one has its sizes; None if it differs."""
        if isinstance(other, SizeText):
            alike = [p[1:] if isinstance(p, tuple) else p for p in self.pieces]
            theirs = [p[1:] if isinstance(p, tuple) else p for p in other.pieces]
            if alike == theirs:
                return other._sizes()
        each = (re.escape(p) if isinstance(p, str) else r"( *-?\d+)" for p in self.pieces)
        found = re.fullmatch("".join(each), other, re.ASCII)
        if found is None:
            return None
        numbers = [int(text) for text in found.groups()]
        formats = [piece[1] for piece in self.pieces if isinstance(piece, tuple)]
        as_written = (format(n, form) for n, form in zip(numbers, formats))
        return numbers if all(map(str.__eq__, as_written, found.groups())) else None


def _plain_piece(piece: Piece) -> str:
    if isinstance(piece, tuple):
        return format(dims.plain(piece[0]), piece[1])
    return piece.hint if isinstance(piece, Atom) else str.__str__(piece)


def _formula_of(piece: Piece) -> str | Atom:
    if not isinstance(piece, tuple):
        return piece
    number, form = piece
    formula = dims.spelled(number)
    args = (formula, form) if form else (formula,)
    return Atom("text", (text_formulas.text, *args), _plain_piece(piece))


def followed(function: Callable, *args: Any, **named: Any) -> Any:
    """Call a function of a text with sizes in it, and remember what its result follows from."""
    plain = [all_plain(x) for x in args], {name: all_plain(x) for name, x in named.items()}
    try:
        made = text_formulas.called(function, args, named, None)
    except text_formulas.NotFollowed:
        asked = [each for x in args if type(x) is SizeText for each in _content(x.formula)]
        leaving("read", f"a text with a size in it is given to {function.__name__}()", *asked)
        return function(*plain[0], **plain[1])
    try:
        made.hint = result = function(*plain[0], **plain[1])
    except Exception:  # of any kind: the function's own, raised again once the use is noted
        _leaves("read", made)
        raise
    texts = [x for x in args if type(x) is SizeText]
    return _known(result, made, texts)


def _known(result: Any, made: Atom, texts: Sequence[SizeText] = ()) -> Any:
    """Return a result that remembers its sizes, or note that it does not."""
    if result is NotImplemented:
        return result
    if not isinstance(result, list) and text_formulas.equals_everywhere(made, result):
        return result
    if type(result) is str:
        alike = (x for x in texts if str.__eq__(x, result))
        same = [x for x in alike if text_formulas.equals_everywhere(made, x.formula)]
        return same[0] if same else SizeText([made])
    if type(result) is bool:
        return decides(format(made), Asked(content, (made,)), result)
    if type(result) in (int, float):
        whole = Atom("text", (text_formulas.whole, made), result)
        size = text_formulas.number_of_digits(whole, int(result))
        if size is not None:
            return dims.dim(size) if type(result) is int else dims.dim(size) * 1.0
    elif type(result) in (list, tuple) and all(type(x) is str for x in result):
        many = Atom("text", (len, made), len(result))
        if not text_formulas.equals_everywhere(many, len(result)):
            _leaves("read", many)
        each = (Atom("text", (text_formulas.item, made, i), x) for i, x in enumerate(result))
        return type(result)(map(_known, result, each))
    _leaves("int" if type(result) in (int, float) else "read", made)
    return result


def _leaves(kind: str, made: Atom, told: str = "") -> None:
    """Note that something read from a text goes on unseen."""
    detail = " ".join(filter(None, (format(made), told)))
    leaving(kind, detail, *_content(made))


def _content(made: Atom) -> list[Asked]:
    asked = [Asked(content, (made,))]
    if made.args[0] is not str.__len__:  # which is the same at most sizes: the next one is tried
        asked.append(Asked(content, (made,), guessed=True))
    return asked


def lost(text: SizeText, told: str) -> str:
    """Return a plain text, and note that it goes on unseen."""
    _leaves("read", text.formula, told)
    return str.__str__(text)


def all_plain(x: Any) -> Any:
    """Replace texts with sizes, and sizes, by plain ones at any depth."""
    if type(x) is SizeText:
        return str.__str__(x)
    if isinstance(x, slice):
        return slice(*map(all_plain, (x.start, x.stop, x.step)))
    if type(x) in (list, tuple):
        return type(x)(map(all_plain, x))
    if type(x) is dict:
        return {all_plain(key): all_plain(value) for key, value in x.items()}
    return dims.plain(x)


def _method(function: Callable) -> Callable:
    @functools.wraps(function)
    def method(self: SizeText, *args: Any, **named: Any) -> Any:
        return followed(function, self, *args, **named)

    return method


# Methods that Python calls on every object; they say nothing about the letters.
_OF_OBJECTS = ("__getattribute__", "__hash__", "__sizeof__", "__getnewargs__")
for _name, _function in vars(str).items():
    _is_method = isinstance(_function, (types.MethodDescriptorType, types.WrapperDescriptorType))
    if _is_method and _name not in vars(SizeText) and _name not in _OF_OBJECTS:
        setattr(SizeText, _name, _method(_function))


def text(pieces: Iterable[Piece]) -> str:
    """The text of some pieces, which remembers the sizes if there are any."""
    pieces = [*pieces]
    plain = [piece for piece in pieces if isinstance(piece, str)]
    if len(plain) == len(pieces):
        return "".join(plain)
    spelled()
    return SizeText(pieces)


def has_size(x: Any) -> bool:
    """Return True for a size, a text with one in it, and a tuple, a list or an object of such."""
    if isinstance(x, (tuple, list)):
        return any(map(has_size, x))
    return dims.is_dynamic(x) or type(x) is SizeText or any(map(has_size, compared_parts(x)))


def compared_parts(x: Any) -> Collection[Any]:
    """The attributes of an object that compares itself in Python: a key such as a dataclass."""
    kind = type(x)
    if type(kind.__eq__) is not types.FunctionType or issubclass(kind, (str, int, float)):
        return ()
    held = None if isinstance(x, torch.Tensor) else getattr(x, "__dict__", None)
    return [each for each in held.values() if _may_be_key(each)] if type(held) is dict else ()


def _may_be_key(x: Any) -> bool:
    return type(x) in (tuple, SizeText) or dims.is_dynamic(x)


def pieces_of(value: Any, conversion: int = -1, form: str = "") -> list[Piece]:
    """The pieces of `{value!r:form}`."""
    if type(form) is SizeText and conversion == -1:
        return _pieces(followed(format, value, form))
    if conversion == -1 and type(value) is dims.Dim:
        piece = value, form
        return [piece if _DECIMAL.fullmatch(form) else _formula_of(piece)]
    if type(value) is dims.DimFloat and (conversion == -1 or not form):
        return [_formula_of((value, form))]
    if not form and has_size(value):
        if type(value) is SizeText and conversion != 114:
            return [*value.pieces]
        return _shown(value)
    if conversion != -1:
        pieces = pieces_of(value, conversion) if form else _written(_CONVERSIONS[conversion], value)
        value = text(pieces)
    return (
        [*value.pieces] if type(value) is SizeText and not form else _written(format, value, form)
    )


def _written(write: Callable, *args: Any) -> list[Piece]:
    return _pieces(written(write, *args))


def written(write: Callable, *args: Any, **named: Any) -> Any:
    """The text that a function writes of an object; one with sizes in it remembers which."""
    made, sizes = departures.written(write, *args, **named)
    if type(made) is not str or not sizes:
        return made
    return SizeText([Atom("text", (text_formulas.unknown, made, *map(dims.spelled, sizes)), made)])


def _pieces(text: str) -> list[Piece]:
    return [*text.pieces] if type(text) is SizeText else [text]


def _shown(value: Any) -> list[Piece]:
    """The pieces of the repr of a size, or of a list, a tuple or a shape with sizes in it."""
    if type(value) is dims.Dim:
        return [(value, "")]
    if type(value) is dims.DimFloat:
        return [_formula_of((value, ""))]
    if not isinstance(value, (tuple, list)) or type(value).__name__ not in _BRACKETS:
        return _written(repr, value)
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
        found += _pieces(each)
    return text(found)


def formatted(
    form: str,
    args: Sequence[Any],
    named: Mapping[str, Any],
    numbers: Iterator[int] | None = None,  # of the places without a name
) -> str:
    """form.format(*args, **named)"""
    formatter, found, numbers = string.Formatter(), list[Piece](), numbers or itertools.count()
    for before, name, inner, conversion in formatter.parse(form):
        found.append(before)
        if name is None:
            continue
        if name[:1] in ("", ".", "["):
            name = f"{next(numbers)}{name}"
        value, _ = formatter.get_field(name, args, named)
        filled = formatted(inner, args, named, numbers) if inner else ""
        found += pieces_of(value, ord(conversion) if conversion else -1, filled)
    return text(found)


def by_percent(form: Any, values: Any) -> Any:
    """form % values"""
    if isinstance(values, dict) and has_size([*values.values()]):
        return followed(operator.mod, form, values)
    if not has_size(values):
        return written(operator.mod, form, values)
    values = values if isinstance(values, tuple) else (values,)
    kinds = [] if type(form) is bytes else [k for k in _PLACES.findall(form) if k != "%"]
    of_floats = any(type(value) is dims.DimFloat for value in values)
    if of_floats or len(kinds) != len(values) or not set(kinds) <= set("sdir"):
        return followed(operator.mod, form, values)
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

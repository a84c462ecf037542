"""Comparison of sizes in two rows, each of which has its own values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...ir.sizes import dims
from ...ir.sizes.comparisons import Asked
from ...ir.sizes.size_polynomials import Atom, Poly
from ...ir.value import Value
from ...recording.reads.questions import Question


def same_asked(x: Asked, y: Asked, here: dict[int, Value]) -> bool:
    """Return True if both ask the same; `here` maps the other row's values to the first's."""
    if x.is_of_named_sizes() and y.is_of_named_sizes():
        return (x.ask, x.of) == (y.ask, y.of)
    words: dict[Any, int] = {}
    return _said(x, words, {}, {}) == _said(y, words, here, {})


def _said(x: Any, words: dict[Any, int], here: dict[int, Value], known: dict[int, Any]) -> Any:
    """Return a word for a question, made of words for its parts; visit each part once."""
    if id(x) in known:
        return known[id(x)]
    if isinstance(x, Poly):
        terms = ((sorted(_said(a, words, here, known) for a in m), c) for m, c in x.terms.items())
        said: Any = tuple(sorted((tuple(word), c) for word, c in terms))
    elif isinstance(x, Atom):
        said = x.kind, tuple(_said(each, words, here, known) for each in x.args)
    elif isinstance(x, Asked):
        said = x.ask, tuple(_said(each, words, here, known) for each in x.of)
    elif isinstance(x, Value):
        said = "value", id(here.get(id(x), x))
    else:
        return x
    known[id(x)] = word = "word", words.setdefault(said, len(words))
    return word


def values_asked(asked: Asked) -> list[Value]:
    """Return the values whose sizes or numbers a question is about."""
    return [value for value in (*asked.picked(), *asked.read()) if isinstance(value, Value)]


class OfAValue:
    """The value whose size a question asks about, as a place that can take another value."""

    def __init__(self, question: Question, value: Value) -> None:
        self._question, self._value = question, value

    @property
    def value(self) -> Value:
        return self._value

    @value.setter
    def value(self, value: Value) -> None:
        asked, known = self._question.asked, dict[Any, Any]()
        assert asked is not None
        of = tuple(_with(each, self._value, value, known) for each in asked.of)
        self._question.asked, self._value = replace(asked, of=of), value


def _with(x: Any, old: Value, new: Value, known: dict[Any, Any]) -> Any:
    """Return the same expression about another value."""
    if not isinstance(x, Poly | Atom):
        return new if x is old else x
    if x not in known:
        if isinstance(x, Poly):
            total = Poly({})
            for atoms, c in x.terms.items():
                product = Poly.of(c)
                for atom in atoms:
                    product = product * Poly.of(_with(atom, old, new, known))
                total = total + product
            known[x] = total
        else:
            args = tuple(_with(each, old, new, known) for each in x.args)
            known[x] = made = Atom(x.kind, args, x.hint, x.unsure)
            made.limits = x.limits
    return known[x]


def of_either(x: Value, y: Value, here: dict[int, Value]) -> tuple | None:
    """Return the shape for a value of two rows, with a size of its own on each axis where they
    differ: a slice may be as long as the answer to an `if` makes it. Return None if no size
    changes.
    """
    words: dict[Any, int] = {}
    shape = []
    for axis, (size, other) in enumerate(zip(x.shape or (), y.shape or ())):
        a, b = _poly(size), _poly(other)
        own = dims.Dim.leaf(x, axis, dims.plain(size))
        alike = a == b or a == own.poly or _said(a, words, {}, {}) == _said(b, words, here, {})
        shape.append(size if alike else own)
    return None if all(new is old for new, old in zip(shape, x.shape or ())) else tuple(shape)


def _poly(size: Any) -> Any:
    return size.poly if type(size) is dims.Dim else size

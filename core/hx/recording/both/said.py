"""What is said of sizes in two rows: whether it is the same, where each has values of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...sizes import dims
from ...sizes.asked import Asked
from ...sizes.polynomials import Atom, Poly
from ...tensors.values import Value
from ..questions import Question


def same_asked(x: Asked, y: Asked, here: dict[int, Value]) -> bool:
    """Whether the same was asked in two rows; `here` are the values of the other in the first."""
    words: dict[Any, int] = {}
    return _said(x, words, {}, {}) == _said(y, words, here, {})


def _said(x: Any, words: dict[Any, int], here: dict[int, Value], known: dict[int, Any]) -> Any:
    """A word for what is asked, made of those for its parts: each is looked at once."""
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
    """Those whose sizes, or numbers, it asks for."""
    return [value for value in (*asked.picked(), *asked.read()) if isinstance(value, Value)]


class OfAValue:
    """What a question asks of the size of a value, as a place where another value may be put."""

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
    """The same of another value."""
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
    """The shape of what is the same in two rows, where a size is not: what is cut by as much as the
    `if` said has one that is its own. None where all are."""
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

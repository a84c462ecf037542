"""`dynamic=`: which sizes may change, in the forms that people write it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import UsageError
from .grammar import within

Limits = dict[str, tuple[int, int | None]]
_LIMITED = re.compile(r"\s*(\w+)\s*((?:[<>]=\s*\d+\s*){1,2})")


class Axes(dict[str, dict[int, str]]):
    """{input: {axis: name}}, and between what some of the names stay."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: Limits = {}


def axes(given: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> Axes:
    """{input: {axis: name}} of `dynamic=`, checked against the tensors that are inputs.

    Takes {"x": {0: "batch"}}, {"x": [0, 2]}, {"x": "batch"} and {"x": {0: None}} (a name is made),
    the form of torch.export ({"x": {0: Dim("batch")}}, {"x": [Dim.AUTO, None]}, and specifications
    in the order of the inputs), and dicts and lists that are nested as the arguments are.
    A size may be a sum of others: {"mask": {1: "past + 1"}}. It may have limits, in the file's own
    words ({"x": {1: "s>=4<=512"}}) or in those of torch.export (Dim("s", min=4, max=512)).
    """
    out = Axes()
    sizes: dict[str, tuple[int, str]] = {}
    sums: list[tuple[str, int, str, int]] = []
    for name, which in _by_input(given, inputs):
        shape = tuple(inputs[name].shape)
        for axis, label in _pairs(name, which):
            if type(axis) is not int or not -len(shape) <= axis < len(shape):
                raise UsageError(
                    f"dynamic= names axis {axis!r} of {name}, which has {len(shape)} axes",
                    hint=f"its shape is {list(shape)}: axes 0 to {len(shape) - 1}",
                )
            axis %= len(shape)
            if axis in out.get(name, ()):
                raise UsageError(f"dynamic= says twice what axis {axis} of {name} is")
            word = f"{name}_{axis}" if label is None else str(getattr(label, "__name__", label))
            word, limit = _limited(word, label)
            if limit is not None:
                out.limits[word] = limit
            if "+" in word and all(map(_countable, _terms(word))):
                word = " + ".join(_terms(word))
                sums.append((name, axis, word, shape[axis]))
                out.setdefault(name, {})[axis] = word
                continue
            if not word.isidentifier():
                raise UsageError(
                    f"{word!r} cannot be the name of a size",
                    hint="a letter, then letters, digits and underscores: batch, seq_len",
                )
            size, first = sizes.setdefault(word, (shape[axis], name))
            if size != shape[axis]:
                raise UsageError(
                    f"{word!r} is {size} in {first} and {shape[axis]} in {name}",
                    why="one name means one size",
                    hint="give the two sizes different names, or inputs that agree",
                )
            out.setdefault(name, {})[axis] = word
    known = {word: size for word, (size, _) in sizes.items()}
    _check_sums(sums, known)
    for word, (low, high) in out.limits.items():
        if not low <= known[word] <= (known[word] if high is None else high):
            raise UsageError(
                f"{word} is {known[word]} in {sizes[word][1]}, outside of its limits: "
                + limits_told(word, (low, high)),
                hint="give inputs that are within them",
            )
    return out


def _limited(word: str, label: Any) -> tuple[str, tuple[int, int | None] | None]:
    """The name without its limits, and these."""
    found = _LIMITED.fullmatch(word)
    if found:
        return found[1], within(found[2])
    low, high = getattr(label, "min", None), getattr(label, "max", None)
    low = low if type(low) is int and low > 1 else 0
    high = high if type(high) is int and high < 2**31 else None
    return word, (low, high) if low or high is not None else None


def limits_told(word: str, limits: tuple[int, int | None]) -> str:
    """4 <= s <= 512"""
    low, high = limits
    return f"{f'{low} <= ' if low else ''}{word}{'' if high is None else f' <= {high}'}"


def _terms(word: str) -> list[str]:
    return [term.strip() for term in word.split("+")]


def _countable(term: str) -> bool:
    return term.isidentifier() or term.isdecimal()


def is_sum(word: str) -> bool:
    """Whether a size is made of others, and needs no name of its own."""
    return "+" in word


def total(word: str, sizes: Mapping[str, Any]) -> Any:
    """What a size is when the named ones are `sizes` (ints, or Dims)."""
    out: Any = 0
    for term in _terms(word):
        out = (int(term) if term.isdecimal() else sizes[term]) + out
    return out


def _check_sums(sums: list[tuple[str, int, str, int]], sizes: dict[str, int]) -> None:
    for name, axis, word, size in sums:
        for term in _terms(word):
            if term.isidentifier() and term not in sizes:
                raise UsageError(
                    f"dynamic= says that axis {axis} of {name} is {word}, and no axis is {term}",
                    hint=f"name an axis {term!r}, or give this one a name of its own",
                )
        if total(word, sizes) != size:
            raise UsageError(
                f"dynamic= says that axis {axis} of {name} is {word} = {total(word, sizes)}, "
                f"and it is {size}",
                hint="give inputs that agree",
            )


def _by_input(given: Any, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(input, what is said of its axes), for arguments that are nested, and in order, too."""
    if isinstance(given, (list, tuple)):
        if len(given) > len(inputs):
            raise UsageError(
                f"dynamic= describes {len(given)} inputs, and there are {len(inputs)}: "
                f"{', '.join(inputs) or 'none'}"
            )
        yield from ((name, which) for name, which in zip(inputs, given) if which is not None)
        return
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"dynamic= cannot be {given!r}", hint='write {"x": {0: "batch"}}')
    for name, which in (given or {}).items():
        yield from _inside(str(name), which, inputs)


def _inside(name: str, which: Any, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if name in inputs:
        if which is not None:
            yield name, which
        return
    nested = any(known.startswith(f"{name}_") for known in inputs)
    if nested and isinstance(which, Mapping):
        for key, part in which.items():
            yield from _inside(f"{name}_{key}", part, inputs)
    elif nested and isinstance(which, (list, tuple)):
        for i, part in enumerate(which):
            yield from _inside(f"{name}_{i}", part, inputs)
    elif not (nested and which is None):
        near = difflib.get_close_matches(name, inputs, 1)
        raise UsageError(
            f"dynamic= names an input that the model does not have: {name!r}",
            why=f"its inputs are {', '.join(inputs) or 'none'}",
            hint=f"did you mean {near[0]!r}?" if near else "",
        )


def _pairs(name: str, which: Any) -> list[tuple[Any, Any]]:
    """(axis, name or None for one that is made) of what is said of one input."""
    if isinstance(which, Mapping):
        pairs = list(which.items())
    elif isinstance(which, str):
        pairs = [(0, which)]
    elif type(which) is int:
        pairs = [(which, None)]
    elif isinstance(which, (list, tuple, set, frozenset)):
        if all(type(a) is int for a in which):
            pairs = [(a, None) for a in which]
        else:  # one for each axis, and None for those that stay
            pairs = [(a, label) for a, label in enumerate(which) if label is not None]
    else:
        raise UsageError(
            f"dynamic= for {name} cannot be {which!r}",
            hint='write {"x": {0: "batch"}} or {"x": [0, 2]}',
        )
    return [(a, None if _auto(label) else label) for a, label in pairs if not _static(label)]


def _auto(label: Any) -> bool:
    return label is None or label is True or "AUTO" in repr(label) or "DYNAMIC" in repr(label)


def _static(label: Any) -> bool:
    return label is False or label == "" or "STATIC" in repr(label)

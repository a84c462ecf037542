"""`dynamic=`: which sizes may change, in the forms that people write it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from .errors import UsageError


def axes(given: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """{input: {axis: name}} of `dynamic=`, checked against the tensors that are inputs.

    Takes {"x": {0: "batch"}}, {"x": [0, 2]}, {"x": "batch"} and {"x": {0: None}} (a name is made).
    A size may be a sum of others: {"mask": {1: "past + 1"}}.
    """
    out: dict[str, dict[int, str]] = {}
    sizes: dict[str, tuple[int, str]] = {}
    sums: list[tuple[str, int, str, int]] = []
    for name, which in (given or {}).items():
        if name not in inputs:
            near = difflib.get_close_matches(str(name), inputs, 1)
            raise UsageError(
                f"dynamic= names an input that the model does not have: {name!r}",
                why=f"its inputs are {', '.join(inputs) or 'none'}",
                hint=f"did you mean {near[0]!r}?" if near else "",
            )
        shape = tuple(inputs[name].shape)
        for axis, label in _pairs(name, which):
            if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
                raise UsageError(
                    f"dynamic= names axis {axis!r} of {name}, which has {len(shape)} axes",
                    hint=f"its shape is {list(shape)}: axes 0 to {len(shape) - 1}",
                )
            axis %= len(shape)
            word = f"{name}_{axis}" if label is None else str(getattr(label, "__name__", label))
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
    _check_sums(sums, {word: size for word, (size, _) in sizes.items()})
    return out


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


def _pairs(name: str, which: Any) -> list[tuple[Any, Any]]:
    if isinstance(which, Mapping):
        return [(a, None if _auto(label) else label) for a, label in which.items() if label != ""]
    if isinstance(which, str):
        return [(0, which)]
    if isinstance(which, int):
        return [(which, None)]
    if isinstance(which, (list, tuple, set, frozenset)):
        return [(a, None) for a in which]
    raise UsageError(
        f"dynamic= for {name} cannot be {which!r}",
        hint='write {"x": {0: "batch"}} or {"x": [0, 2]}',
    )


def _auto(label: Any) -> bool:
    return label is None or label is True or "AUTO" in repr(label) or "DYNAMIC" in repr(label)

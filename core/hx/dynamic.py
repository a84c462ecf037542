"""`dynamic=`: which sizes may change, in the forms that people write it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from .errors import UsageError


def axes(
    given: Mapping[str, Any] | None, inputs: Mapping[str, Any]
) -> dict[str, dict[int, str]]:
    """{input: {axis: name}} of `dynamic=`, checked against the tensors that are inputs.

    Takes {"x": {0: "batch"}}, {"x": [0, 2]}, {"x": "batch"} and {"x": {0: None}} (a name is made).
    """
    out: dict[str, dict[int, str]] = {}
    sizes: dict[str, tuple[int, str]] = {}
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
    return out


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

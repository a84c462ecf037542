"""`dynamic=`: the sizes that may change, in each form that users write them."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import UsageError
from .input_grammar import LIMITS, Limits, NamedLimits, within

_LIMITED = re.compile(rf"\s*(\w+)\s*({LIMITS}+)")
_TERM = re.compile(r"(?:(\d+)\s*\*\s*)?([^\W\d]\w*)|(\d+)")  # 8*h, h or 1


class Axes(dict[str, dict[int, str]]):
    """{input: {axis: name}}, and the limits of some of the names."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = NamedLimits()
        self.inputs: tuple[str, ...] = ()
        self.others: dict[str, Any] = {}  # entries that are not inputs: possibly outputs

    def of_outputs(self, shapes: Mapping[str, Sequence[Any] | None]) -> list[str]:
        """Return notes on the outputs whose axes are named, as torch.onnx.export allows.

        Their sizes follow from the inputs', so there is nothing to do but to look.
        """
        told = []
        for name, which in self.others.items():
            if name not in shapes:
                raise _unknown(name, (*self.inputs, *shapes), "neither an input nor an output")
            shape = shapes[name]
            if shape is None:
                continue
            for axis, _ in _pairs(name, which):
                if type(axis) is not int or not -len(shape) <= axis < len(shape):
                    raise _no_axis(axis, name, shape)
                if type(shape[axis]) is int:
                    told.append(
                        f"dynamic= names axis {axis} of the output {name}, which is "
                        f"{shape[axis]} whatever the inputs' sizes are"
                    )
        return told


def axes(given: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> Axes:
    """{input: {axis: name}} of `dynamic=`, checked against the tensors that are inputs.

    Takes {"x": {0: "batch"}}, {"x": [0, 2]}, {"x": "batch"} and {"x": {0: None}} (a name is made),
    the form of torch.export ({"x": {0: Dim("batch")}}, {"x": [Dim.AUTO, None]}, and specifications
    in the order of the inputs), and dicts and lists that are nested as the arguments are.
    Of what is no input, outputs it may be, is told apart: see `of_outputs`.
    A size may be a sum of others: {"mask": {1: "past + 1"}}, or {"image": {2: "8*h"}}. It may have
    limits, in the file's own words ({"x": {1: "s>=4<=512"}}) or in those of torch.export
    (Dim("s", min=4, max=512)), and be a multiple: "h%8", or 8 * Dim("h") where no axis is "h".
    """
    out = Axes()
    out.inputs = tuple(inputs)
    if isinstance(given, Axes):
        out.limits.update(given.limits)
    if isinstance(given, Mapping):
        given = _without_static(given)
        out.others = {str(k): v for k, v in given.items() if not _is_input(str(k), inputs)}
        given = {k: v for k, v in given.items() if str(k) not in out.others}
    said = list(_said(given, inputs))
    parts = _parts({word for *_, word, _ in said})
    sizes: dict[str, tuple[int, str]] = {}
    sums: list[tuple[str, int, str, int]] = []
    for name, axis, word, limit in said:
        shape = tuple(inputs[name].shape)
        if type(axis) is not int or not -len(shape) <= axis < len(shape):
            raise _no_axis(axis, name, shape)
        axis %= len(shape)
        if axis in out.get(name, ()):
            raise UsageError(f"dynamic= names axis {axis} of {name} twice")
        word = word or f"{name}_{axis}"
        if word in parts:
            word, step = parts[word]
            limit = limit.and_also(Limits(step=step))
        if is_sum(word) and all(map(_TERM.fullmatch, _terms(word))):
            word = " + ".join(_terms(word))
            sums.append((name, axis, word, shape[axis]))
            out.setdefault(name, {})[axis] = word
            continue
        _require_name(word)
        size, first = sizes.setdefault(word, (shape[axis], name))
        if size != shape[axis]:
            raise UsageError(
                f"{word!r} is {size} in {first} and {shape[axis]} in {name}",
                why="one name means one size",
                hint="give the two sizes different names, or inputs that agree",
            )
        out.setdefault(name, {})[axis] = word
        if limit != Limits():
            out.limits[word] = limit.and_also(out.limits[word])
    known = {word: size for word, (size, _) in sizes.items()}
    _check_sums(sums, known)
    for word, limit in out.limits.items():
        limit.require_some(word)
        if not limit.hold(known[word]):
            raise UsageError(
                f"{word} is {known[word]} in {sizes[word][1]}, outside of its limits: "
                + limit.in_words(word),
                hint="give example inputs that are within them",
            )
    return out


def _said(given: Any, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Any, str, Limits]]:
    """Yield (input, axis, word or "" for a name to be made, limits) for each entry of
    `dynamic=`.
    """
    listed = [(name, _pairs(name, which)) for name, which in _by_input(given, inputs)]
    # Beside the Dims of torch.export, None and a number are sizes that stay.
    theirs = any(_is_dim(label) for _, pairs in listed for _, label in pairs)
    for name, pairs in listed:
        for axis, label in pairs:
            if theirs and (label is None or type(label) is int):
                continue
            word = "" if _auto(label) else str(getattr(label, "__name__", label))
            yield name, axis, *_limited(word, label)


def _limited(word: str, label: Any) -> tuple[str, Limits]:
    """Split a name from its limits."""
    found = _LIMITED.fullmatch(word)
    if found:
        return found[1], within(found[2])
    low, high = getattr(label, "min", None), getattr(label, "max", None)
    low = low if type(low) is int and low > 1 else 0
    return word, Limits(low, high if type(high) is int and high < 2**31 else None)


def _parts(words: set[str]) -> dict[str, tuple[str, int]]:
    """{"8*h": ("h", 8)}: what is so many times a size that no axis has is a multiple.

    The axis itself then has the name. Not where the same is in it several times: each of these
    would be another size.
    """
    terms = {word: _TERM.fullmatch(word.strip()) for word in words}
    times = {word: (t[2], int(t[1])) for word, t in terms.items() if t and t[1] and int(t[1])}
    of = [name for name, _ in times.values()]
    used = {t[2] for word in words if "+" in word for t in _TERM.finditer(word)}
    return {
        word: (name, n)
        for word, (name, n) in times.items()
        if name not in words and name not in used and of.count(name) == 1
    }


def _terms(word: str) -> list[str]:
    return [term.strip() for term in word.split("+")]


def is_sum(word: str) -> bool:
    """Return True if a size is a sum or a product of others, and so needs no name of its own."""
    return "+" in word or "*" in word


def total(word: str, sizes: Mapping[str, Any]) -> Any:
    """Compute a size from the named `sizes` (ints, or Dims)."""
    out: Any = 0
    for times, name, number in _TERM.findall(word):
        out = (sizes[name] * int(times or 1) if name else int(number)) + out
    return out


def _check_sums(sums: list[tuple[str, int, str, int]], sizes: dict[str, int]) -> None:
    for name, axis, word, size in sums:
        for _, term, _ in _TERM.findall(word):
            if term and term not in sizes:
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
    """Yield (input, its axes), for arguments that are nested or given by position, too."""
    if isinstance(given, (list, tuple)):
        given = list(_leaves(given))
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


def of_tensors(given: Any, tensors: Sequence[bool]) -> Any:
    """Drop the None entries of arguments that are not tensors from axes given by position."""
    if not isinstance(given, (list, tuple)) or all(tensors):
        return given
    leaves = list(_leaves(given))
    nothing = all(leaf in (None, {}, ()) for leaf, is_one in zip(leaves, tensors) if not is_one)
    if len(leaves) != len(tensors) or not nothing:
        return given
    return [leaf for leaf, is_one in zip(leaves, tensors) if is_one]


def _without_static(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the inputs with dynamic axes: torch.export wants None or Dim.STATIC for all others."""
    return {k: v for k, v in given.items() if v is not None and not (_is_dim(v) and _static(v))}


def _require_name(word: str) -> None:
    if not word.isidentifier():
        raise UsageError(
            f"{word!r} cannot be the name of a size",
            hint="write its limits after it: batch>=1<=8, height%32"
            if set(word) & set("<>=%.")
            else "a letter, then letters, digits and underscores: batch, seq_len",
        )


def by_fields(which: Any, value: Any) -> Any:
    """Key the axes given for a named tuple by its field names, at any depth."""
    in_order = isinstance(which, (list, tuple)) and isinstance(value, (list, tuple))
    if in_order and len(which) == len(value):
        parts = [*map(by_fields, which, value)]
        return dict(zip(value._fields, parts)) if hasattr(value, "_fields") else parts
    if isinstance(which, Mapping) and isinstance(value, Mapping):
        return {key: by_fields(part, value.get(key)) for key, part in which.items()}
    return which


def _leaves(given: Iterable[Any]) -> Iterator[Any]:
    """Yield the axes of each input from lists and dicts that are nested like the arguments."""
    for which in given:
        several = which.values() if isinstance(which, Mapping) else which
        nested = isinstance(several, Iterable) and any(
            isinstance(each, Mapping) or (isinstance(each, (list, tuple)) and several is which)
            for each in several
        )
        if nested:
            yield from _leaves(several)
        else:
            yield which


def _inside(name: str, which: Any, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(input, its axes) for each input that `dynamic=` describes under one name."""
    if name in inputs:
        if which is not None:
            yield name, which
        return
    inside = [known for known in inputs if known.startswith(f"{name}_")]
    if isinstance(which, tuple) and hasattr(which, "_asdict"):
        which = which._asdict()
    elif dataclasses.is_dataclass(which) and not isinstance(which, type):
        fields = {f.name: getattr(which, f.name) for f in dataclasses.fields(which)}
        which = {key: part for key, part in fields.items() if _is_input(f"{name}_{key}", inputs)}
    if inside and isinstance(which, Mapping):
        yield from _inside_mapping(name, which, inputs)
    elif inside and isinstance(which, (list, tuple)):
        yield from _inside_list(name, which, inside, inputs)
    elif not (inside and which is None):
        raise _unknown(name, inputs, "no input")


def _inside_mapping(
    name: str, which: Mapping[str, Any], inputs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    if which and not any(_is_input(f"{name}_{key}", inputs) for key in which):
        raise _unknown(name, inputs, "no input")  # `x`, where there is an `x_in`
    for key, part in which.items():
        if part is not None:  # nothing is said of it, and it may be no tensor
            yield from _inside(f"{name}_{key}", part, inputs)


def _inside_list(
    name: str, which: Sequence[Any], inside: Sequence[str], inputs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    leaves = list(_leaves([which]))
    if len(leaves) == len(inside) and all(leaf == leaves[0] for leaf in leaves):
        # The same for each: an object, such as a cache, may have them in another order.
        for known in inside:
            yield from _inside(known, leaves[0], inputs)
        return
    numbered = any(_is_input(f"{name}_{i}", inputs) for i in range(len(which)))
    for i, part in enumerate(which):
        if part is None:  # it may be no tensor
            continue
        by_place = numbered or len(which) != len(inside)
        yield from _inside(f"{name}_{i}" if by_place else inside[i], part, inputs)


def _is_input(name: str, inputs: Iterable[str]) -> bool:
    return any(known == name or known.startswith(f"{name}_") for known in inputs)


def _unknown(name: str, known: Iterable[str], what: str) -> UsageError:
    known = list(known)
    begun = [each for each in known if each.startswith(f"{name}_")]
    near = difflib.get_close_matches(name, known, 1) or begun
    return UsageError(
        f"dynamic= names {name!r}, which is {what}",
        why=f"there are {', '.join(known) or 'none'}",
        hint=f"did you mean {near[0]!r}?" if near else "",
    )


def _no_axis(axis: Any, name: str, shape: Sequence[Any]) -> UsageError:
    return UsageError(
        f"dynamic= names axis {axis!r} of {name}, which has {len(shape)} axes",
        hint=f"its shape is {list(shape)}: axes 0 to {len(shape) - 1}"
        if shape
        else "it is a scalar",
    )


def _pairs(name: str, which: Any) -> list[tuple[Any, Any]]:
    """Yield (axis, name or None for one to be made) for one input."""
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
    return [(a, label) for a, label in pairs if not _static(label)]


def _is_dim(label: Any) -> bool:
    return type(label).__module__.startswith("torch.")


def _auto(label: Any) -> bool:
    return label is None or label is True or "AUTO" in repr(label) or "DYNAMIC" in repr(label)


def _static(label: Any) -> bool:
    return label is False or label == "" or "STATIC" in repr(label)

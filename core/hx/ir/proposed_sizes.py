"""Sizes that may change, proposed from the shapes of several calls, as `-d` options say them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from .dynamic_axes import is_sum

Axis = tuple[str, int]  # an input, and the number of an axis
Shapes = Mapping[str, Sequence[int]]
Proposal = dict[str, dict[int, str]]  # {"x": {0: "batch"}}, as `dynamic=` takes it

_CHANNELS = (1, 3, 4)  # of images: grey, with colours, and with transparency
_TOKENS = re.compile(r"(^|_)(ids|tokens?|mask)$")


def propose(calls: Sequence[Shapes]) -> Proposal:
    """Return the axes whose sizes differ between the calls; equal sizes have one name.

    A size that is the sum or a multiple of others, in three different calls or more, is written so.
    """
    groups: dict[tuple[int, ...], list[Axis]] = {}
    for name, shape in calls[0].items():
        if any(len(each.get(name, ())) != len(shape) for each in calls):
            continue
        for axis in range(len(shape)):
            sizes = tuple(each[name][axis] for each in calls)
            if len(set(sizes)) > 1:
                groups.setdefault(sizes, []).append((name, axis))
    names = names_for([*groups.values()], calls[0])
    words = _as_sums(dict(zip(names, groups)))
    return proposal_of({words[name]: axes for name, axes in zip(names, groups.values())})


def proposal_of(groups: Mapping[str, Iterable[Axis]]) -> Proposal:
    """Sort named groups of axes by their inputs."""
    found: Proposal = {}
    for word, axes in groups.items():
        for name, axis in axes:
            found.setdefault(name, {})[axis] = word
    return {name: dict(sorted(axes.items())) for name, axes in found.items()}


def names_for(groups: Sequence[Sequence[Axis]], shapes: Shapes) -> list[str]:
    """Return a name for each group of axes that have one size."""
    first = next((name for name, shape in shapes.items() if shape), "")
    taken: set[str] = set()
    names = []
    for group in groups:
        word = name = _name(group, shapes, first)
        number = 1
        while name in taken:
            number += 1
            name = f"{word}_{number}"
        taken.add(name)
        names.append(name)
    return names


def _name(group: Sequence[Axis], shapes: Shapes, first: str) -> str:
    if (first, 0) in group:
        return "batch"
    if any(axis == 1 and len(shapes[name]) == 2 and _TOKENS.search(name) for name, axis in group):
        return "sequence"
    name, axis = group[0]
    if name.startswith("past_"):  # keys and values of a language model
        return "past"
    shape = shapes[name]
    if len(shape) == 4 and axis > 1 and (name == first or shape[1] in _CHANNELS):
        if {(name, 2), (name, 3)} <= {*group}:
            return "side"
        return "height" if axis == 2 else "width"
    word = re.sub(r"\W", "_", f"{name}_{axis}")
    return word if word.isidentifier() else f"size_{word}"


def _as_sums(sizes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Return how each name is written: as itself, or as what it follows from in all calls."""
    words = {name: name for name in sizes}
    used: set[str] = set()
    for name in sorted(sizes, key=lambda each: -sum(sizes[each])):
        others = {each: sizes[each] for each in sizes if each != name and not is_sum(words[each])}
        found = _sum(sizes[name], others)
        if name not in used and found is not None:
            words[name], terms = found
            used.update(terms)
    return words


def _sum(
    sizes: tuple[int, ...], others: Mapping[str, tuple[int, ...]]
) -> tuple[str, list[str]] | None:
    """Return `8*h`, `past + new` or `past + 1` for sizes, and the names in it.

    Two points are no evidence: a difference that is the same in both may be one by chance.
    """
    for name, known in others.items():
        times = sizes[0] // known[0] if known[0] else 0
        if times > 1 and _differ(known) and all(n == times * k for n, k in zip(sizes, known)):
            return f"{times}*{name}", [name]
    for (name, known), (other, more) in combinations(others.items(), 2):
        if _differ(known, more) and all(n == k + m for n, k, m in zip(sizes, known, more)):
            return f"{name} + {other}", [name, other]
    for name, known in others.items():
        rest = sizes[0] - known[0]
        if rest > 0 and _differ(known) and all(n == k + rest for n, k in zip(sizes, known)):
            return f"{name} + {rest}", [name]
    return None


def _differ(*sizes: tuple[int, ...]) -> bool:
    """Return True if there are three points or more."""
    return len({*zip(*sizes)}) > 2


def words_of(proposal: Proposal) -> dict[str, list[Axis]]:
    """Return the axes of each name, in the order of the inputs."""
    found: dict[str, list[Axis]] = {}
    for name, axes in proposal.items():
        for axis, word in axes.items():
            found.setdefault(word, []).append((name, axis))
    return found


def without(proposal: Proposal, names: Iterable[str]) -> Proposal:
    """Return the proposal without some names, and without the sums of them."""
    gone = set(names)
    return {
        name: kept
        for name, axes in proposal.items()
        if (kept := {axis: word for axis, word in axes.items() if not gone & _names_in(word)})
    }


def _names_in(word: str) -> set[str]:
    return {*re.findall(r"[^\W\d]\w*", word)}


def as_options(proposal: Proposal) -> str:
    """Return the options to paste: `-d "x:0=batch,2=height" -d "mask:0=batch"`."""
    return " ".join(
        f'-d "{name}:{",".join(f"{axis}={word}" for axis, word in axes.items())}"'
        for name, axes in proposal.items()
    )

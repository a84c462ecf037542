"""Inputs of other sizes, made from those of a recipe."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import torch

from ..ir import dynamic_axes
from ..ir.input_grammar import Limits, NamedLimits
from ..ir.recipe import Recipe, Sizes
from .variations import begins_at_0, end_at, ending, making_up, repeated, resized


def sizes_of(recipe: Recipe, tensors: Mapping[str, torch.Tensor] | None = None) -> Sizes:
    """Return the size of each dynamic name, in the recording or in other inputs."""
    tensors = recipe.inputs if tensors is None else tensors
    return {
        word: tensors[name].shape[axis]
        for name, axes in recipe.request.sizes.items()
        for axis, word in axes.items()
        if not dynamic_axes.is_sum(word)
    }


def new_sizes(recipe: Recipe) -> Sizes:
    """Return the recorded sizes that are other ones than the user's."""
    given = sizes_of(recipe, recipe.given)
    return {word: n for word, n in sizes_of(recipe).items() if n != given[word]}


def at(recipe: Recipe, sizes: Sizes, counted: bool = True) -> dict[str, torch.Tensor]:
    """Return the recorded inputs at other sizes, with other values; `counted`: positions go on."""
    ends, made = _ends(recipe, sizes), {}
    for key, tensor in recipe.inputs.items():
        axes = recipe.request.sizes.get(key, {})
        seed = zlib.crc32(key.encode())  # equal inputs would hide that two were exchanged
        wanted = {a: dynamic_axes.total(w, sizes) for a, w in axes.items()}
        new = resized(tensor, wanted, seed, counted=counted)
        made[key] = making_up(ending(new, tensor, ends), tensor, ends)
    return made


def _ends(recipe: Recipe, sizes: Sizes) -> dict[int, int]:
    """Return the new size for each recorded one, the smallest of several."""
    ends: dict[int, int] = {}
    for word, n in sizes_of(recipe).items():
        ends[n] = min(ends.get(n, sizes[word]), sizes[word])
    return ends


def repeated_at(recipe: Recipe, sizes: Sizes) -> dict[str, torch.Tensor]:
    """Return the recorded inputs at other sizes, with the same values.

    Ends and lengths of parts still make up a whole.
    """
    ends, made = _ends(recipe, sizes), {}
    for key, tensor in recipe.inputs.items():
        axes = recipe.request.sizes.get(key, {})
        new = repeated(tensor, {a: dynamic_axes.total(w, sizes) for a, w in axes.items()})
        made[key] = making_up(ending(new, tensor, ends), tensor, ends)
    return made


def cut(
    recipe: Recipe, tensors: Mapping[str, torch.Tensor], word: str, start: int, size: int
) -> dict[str, torch.Tensor]:
    """Return a part of some inputs along the axes of one name."""
    made = dict(tensors)
    for key, axes in recipe.request.sizes.items():
        for axis, name in axes.items():
            if name == word:
                made[key] = made[key].narrow(axis, start, size)
    return made


def twice(recipe: Recipe, sizes: Sizes) -> dict[str, torch.Tensor]:
    """Return the recorded inputs twice, end to end, for a model that refuses drawn values.

    Whole numbers that describe the rest (lengths of its parts, or where they begin) are repeated;
    an order goes on behind the last place. Floats are new ones.
    """
    made = at(recipe, sizes)
    for key, tensor in recipe.inputs.items():
        if tensor.is_floating_point() or tensor.is_complex():
            continue
        is_order = tensor.dim() == 1 and tensor.equal(tensor.argsort().argsort())
        for axis in recipe.request.sizes.get(key, {}):
            more = tensor + len(tensor) if is_order else tensor
            tensor = torch.cat((tensor, more), axis)
            tensor = tensor.narrow(axis, 0, min(tensor.shape[axis], made[key].shape[axis]))
        if tensor.shape == made[key].shape:
            made[key] = tensor
    return made


def larger(words: Sizes, limits: NamedLimits) -> Sizes:
    """Return larger sizes, different where they were equal.

    Large sizes grow by about an eighth, so that the rest behind a few strides grows, too. The
    growth has a multiple of 8, which leaves them as odd as adding one does.
    """
    steps = {word: limits[word].step for word in words}
    return {
        w: n + steps[w] * (1 + i % 2 + n // steps[w] // 64 * 8)
        for i, (w, n) in enumerate(words.items())
    }


def limits_of(recipe: Recipe) -> NamedLimits:
    """Return the limits of each dynamic name, from the request and from the inputs."""
    words, given = sizes_of(recipe), recipe.request.sizes.limits
    limits = NamedLimits({word: given[word] for word in words})
    for word in _of_ends(recipe, words):
        limits[word] = limits[word].and_also(Limits(2))
    return limits


def _of_ends(recipe: Recipe, words: Sizes) -> set[str]:
    """Return the names that count the ends of parts: with the start of the first, two or more."""
    return {
        word
        for key, axes in recipe.request.sizes.items()
        for axis, word in axes.items()
        if word in words and axis == recipe.inputs[key].dim() - 1
        if begins_at_0(recipe.inputs[key]) and end_at(recipe.inputs[key], words.values())
    }


def told(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{w}={n}" for w, n in sizes.items())


def equal_sizes(given: Sequence[Sizes]) -> list[list[str]]:
    """Return groups of names that have one size in each of these inputs, but not the same in all."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for word in given[0]:
        groups.setdefault(tuple(sizes[word] for sizes in given), []).append(word)
    return [group for seen, group in groups.items() if len(group) > 1 and len(set(seen)) > 1]

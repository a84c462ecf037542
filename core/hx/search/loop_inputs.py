"""Inputs with enough rounds to see the loops whose lengths follow from sizes."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..budget import BUDGET
from ..ir.recipe import Loops, Recipe, Sizes
from ..ir.size_moves import Move
from ..merging.loops import Before, asked_in_rounds, counts
from ..proof.cases.across import Across
from ..proof.cases.asking import case_of
from ..proof.cases.counted import counting, room_for_members, with_more_rounds
from ..proof.subject import Subject
from ..recording.rounds.loop_lengths import at_enough_rounds
from ..recording.rounds.round_marks import rounds_of
from ..samples.sizes import at, sizes_of, told
from ..samples.variations import whole_of


def with_loops(subject: Subject) -> Recipe | None:
    """Return a recipe with enough rounds to recognize loops whose lengths follow from sizes."""
    recipe = subject.recipe.derived
    numbers = tuple(counting(subject))
    asked = [*rounds_of(subject.trace.escapes.values())]
    words = sizes_of(recipe)
    if not asked or recipe.request.weights.streamed or recipe.at_odd_sizes:
        return None
    nodes, limits = subject.trace.nodes, recipe.request.sizes.limits
    begin = dict(words)
    if asked_in_rounds(subject.trace):  # the model is recorded once for each round, and more
        named = {word for each in asked for word in each.names()}
        most = BUDGET.rounds.recorded
        begin = {word: min(n, most) if word in named else n for word, n in words.items()}
    # Limits may leave no size other than the recorded one.
    least, nearly, wholly = (
        at_enough_rounds(asked, begin, limits, fixed) for fixed in ((), *counts(nodes))
    )
    sizes = _nearest(nearly, wholly) or least
    if sizes is None:
        return None
    sizes = room_for_members(subject, _with_room(recipe, words, sizes))
    more = with_more_rounds(subject, recipe.inputs if sizes == words else at(recipe, sizes))
    if sizes == words and more is None:
        return recipe.with_flow(loops=Loops(Before([]), counting=numbers))
    if Across(subject.trace.graph.work, words, limits).refused(Move(sizes), 0):
        return None  # it would take many times the work
    inputs = _taken(subject, words, sizes) if more is None else more
    found = replace(recipe, inputs=inputs, also_proved={"given": recipe.given})
    return found.with_flow(loops=Loops(Before(nodes), counting=numbers))


def _taken(subject: Subject, words: Sizes, sizes: Sizes) -> dict[str, torch.Tensor]:
    """Return inputs of these sizes that the model takes.

    If it refuses them, the other sizes grow by as much: one may have to be larger than another.
    """
    recipe, limits = subject.recipe, subject.recipe.request.sizes.limits
    tensors, most = at(recipe, sizes), max(n - words[word] for word, n in sizes.items())
    more = {word: n if n != words[word] else n + most for word, n in sizes.items()}
    found = case_of(subject, told(sizes), tensors)[0]
    if not found and more != sizes and limits.hold(more):
        found = case_of(subject, told(more), at(recipe, more))[0]
    return dict(found[0].feeds) if found else tensors


def _nearest(fewer: Sizes | None, more: Sizes | None) -> Sizes | None:
    """Return the sizes for more rounds, unless they are far larger than those for fewer."""
    if fewer is None or more is None:
        return fewer or more
    factor = BUDGET.rounds.fewer_factor
    return fewer if any(more[word] > factor * n for word, n in fewer.items()) else more


def _with_room(recipe: Recipe, words: Sizes, sizes: Sizes) -> Sizes:
    """Enlarge a size that counts the elements of all parts as much as the number of parts grew."""
    found = dict(sizes)
    for key, axes in recipe.request.sizes.items():
        tensor = recipe.inputs[key]
        grown = [w for w in axes.values() if w in words and sizes[w] > words[w] > 0]
        whole = whole_of(tensor, words.values())
        if not grown or not whole:
            continue
        times = max(-(-sizes[word] // words[word]) for word in grown)
        for word, n in words.items():
            if n == whole and found[word] == n:
                found[word] = times * n
    return found if recipe.request.sizes.limits.hold(found) else sizes

"""Findings about the recipe of an export."""

from __future__ import annotations

from ..findings import FOLLOWED, Finding
from ..ir.recipe import STANDARD, Folding, Recipe, Sizing
from ..report import Report
from ..samples.sizes import new_sizes, sizes_of
from .answers import answers_note

_NUMBERS = frozenset({"int", "float", "len", "index", "format", "range", "repeat"})


def follow_sizes(report: Report) -> None:
    """Mark as followed the sizes that became numbers, where formulas put them into the graph."""
    for escape in report.escapes:
        of_sizes = escape.asked and not escape.asks_of_values()
        if escape.kind in _NUMBERS and of_sizes:
            escape.carried, escape.beyond = True, ""


def recipe_findings(recipe: Recipe, asked: set[str]) -> list[Finding]:
    """Return what is unusual about the recipe of a right file."""
    return [Finding(FOLLOWED, text) for text in _unusual(recipe, asked)]


def _unusual(recipe: Recipe, asked: set[str]) -> list[str]:
    if recipe.body is not None:
        return [
            "the model differentiates as it runs: what PyTorch's own trace of it calls is recorded"
        ]
    if recipe.padding is not None:
        return [
            "recorded as if no size fitted where the model asks for it: padding by nothing, and "
            "resizing to the same size, change nothing, so one way is right for all sizes"
        ]
    standard = recipe.answers == STANDARD
    if recipe.folding is Folding.SELECTING:
        return ["both sides of the Ifs in its loops are computed, and the results selected between"]
    notes = [] if standard else [answers_note(recipe.answers, asked)]
    if recipe.sizing is Sizing.INFORMATIVE:
        given = sizes_of(recipe, recipe.given)
        changed = [f"{word}={n} instead of {given[word]}" for word, n in new_sizes(recipe).items()]
        notes.append(
            f"recorded at {' and '.join(changed)}, because the model treats the given sizes specially"
        )
    elif recipe.also_proved and not recipe.flow.loops and not recipe.flow.until:
        notes.append(
            "recorded at other sizes than the given ones, at which the model takes a special way, "
            "or reuses results of an earlier run that a graph has to compute"
        )
    return notes

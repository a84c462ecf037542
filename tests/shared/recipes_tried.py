"""The recipes that a search tries for one export, as short names, and what came of each.

This is the only place that knows how the engine represents a recipe and an outcome: tests and the
oracle (`tests/suites/oracle.py`) use the names alone. When the engine's types change, change
`tried`, `recipe_name` and `_outcome_name`, and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

from hx import errors
from hx.ir import outcome as outcomes
from hx.ir.recipe import EXPORTING, ONNX, TRACING, Folding, Promise, Recipe, Sizing

ANSWERS = {
    frozenset({TRACING, EXPORTING}): "",
    frozenset({EXPORTING}): "answers:exporting",
    frozenset({TRACING, EXPORTING, ONNX}): "answers:all",
    frozenset(): "answers:none",
}

# The first class that fits gives the name.
ERRORS: dict[type[BaseException], str] = {
    errors.Differentiates: "differentiates",
    errors.EscapeError: "escape",
    errors.MissingConverters: "missing",
    errors.Unsupported: "unsupported",
    errors.HxError: "refused",
}


@contextlib.contextmanager
def tried() -> Iterator[list[str]]:
    """Collect `recipe: outcome` for each recipe that exports in this block try, in order.

    The recipe that an export ends with has the outcome "right", or "raised" if an error ended it.
    """
    from hx import exporter

    found: list[str] = []
    search = exporter.strategies

    def watched(*given: Any) -> Generator[Any, outcomes.Outcome, None]:
        steps = search(*given)
        recipe = next(steps)
        while True:
            name = recipe_name(recipe)
            found.append(f"{name}: right")
            outcome = yield recipe
            found[-1] = f"{name}: {_outcome_name(outcome)}"
            try:
                recipe = steps.send(outcome)
            except StopIteration:
                return

    exporter.strategies = watched
    try:
        yield found
    except Exception:
        if found and found[-1].endswith(": right"):
            found[-1] = found[-1].replace(": right", ": raised")
        raise
    finally:
        exporter.strategies = search


def recipe_name(recipe: Recipe) -> str:
    """The inputs and answers of a recipe, then the control flow that it looks for."""
    parts, flow = [ANSWERS[recipe.answers]], recipe.flow
    if recipe.body is not None:
        parts.append("derivative")
    parts.append("padded" if recipe.padding is not None else "")
    parts.append("unmerged" if recipe.unmerged_reason else "")
    if recipe.sizing is Sizing.INFORMATIVE:
        parts.append("informative")
    elif recipe.also_proved and flow.loops is None:
        parts.append("other-sizes")
    if recipe.promise is Promise.ONWARD:
        parts.append("from-here-on")
    if recipe.forced.by_line:
        parts.append("no-breaks")
    names = []
    if flow.formulas:
        names.append("formulas")
    if flow.until is not None:
        names.append("until" if flow.until.times is not None else "until-true")
    if flow.loops is not None:
        names.append("numbered-loops" if flow.loops.numbered else "loops")
    if flow.branches is not None:
        names.append("branches-on-failed" if flow.branches.required else "branches")
        names[-1] += "-in-turn" if flow.branches.in_turn else ""
    if recipe.folding is not Folding.FOLDED:
        names.append(recipe.folding.name.lower())
    return " ".join(filter(None, [*parts, "+".join(names) or "plain"]))


def _outcome_name(outcome: outcomes.Outcome) -> str:
    match outcome:
        case outcomes.OffersAnswers():
            return "leaves"
        case outcomes.OffersSizes():
            return "offers sizes"
        case outcomes.OffersLoops():
            return "offers loops"
        case outcomes.OffersBranches():
            offers = ["until"] * bool(outcome.untils) + ["branches"] * outcome.branches
            return f"offers {'+'.join(offers)}"
        case outcomes.Wrong():
            return "wrong"
        case outcomes.Refused():
            for kind, name in ERRORS.items():
                if isinstance(outcome.error, kind):
                    return name
            return f"model raised {type(outcome.error).__name__}"
    raise TypeError(outcome)

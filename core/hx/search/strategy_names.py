"""Strategies and outcomes in plain words, for the report and the progress line."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from ..budget import BUDGET
from ..errors import HxError
from ..ir.outcome import (
    Offers,
    OffersAnswers,
    OffersBranches,
    OffersSizes,
    Outcome,
    Refused,
    Right,
    Wrong,
)
from ..ir.recipe import (
    EXPORTING,
    ONNX,
    STANDARD,
    TRACING,
    Answers,
    Branches,
    Folding,
    Line,
    Promise,
    Recipe,
    Sizing,
    Until,
)
from ..proof.proof import Proof
from ..samples.sizes import new_sizes, told

PLAIN = "plain recording"
ANSWERS: dict[Answers, str] = {
    frozenset({EXPORTING}): "told that it is exported, not traced",
    frozenset({TRACING, EXPORTING, ONNX}): "told that it is exported to ONNX",
    frozenset(): "told that it is neither exported nor traced",
}
FOLDINGS = {
    Folding.FOLDED: "",
    Folding.UNFOLDED: "constants computed in the graph",
    Folding.COUNTING: "constants and counts computed in the graph",
    Folding.SELECTING: "both sides of Ifs in loops computed",
}
PROMISES = {
    Promise.NONE: "for all sizes",
    Promise.AROUND: "",
    Promise.ONWARD: "for the given sizes and larger ones",
    Promise.ANY: "promised for sizes at which it is right",
}


def strategy_name(recipe: Recipe) -> str:
    """Name a recipe: the control flow that it merges, and how it differs from a plain recording."""
    flow = recipe.flow
    merged = []
    if recipe.body is not None:
        merged.append("PyTorch's trace of the derivatives")
    if flow.until is not None:
        merged.append(_until(flow.until))
    if flow.loops is not None:
        merged.append(
            "loops that count their rounds" if flow.loops.numbered else "loops over sizes"
        )
    if flow.branches is not None:
        merged.append(_branches(flow.branches))
    if flow.formulas:
        merged.append("formulas for numbers of sizes")
    exits = "without its other exits" if recipe.forced.by_line else ""
    sizes = "at other sizes" if recipe.at_odd_sizes else ""
    if recipe.sizing is Sizing.INFORMATIVE:
        sizes = f"at {told(new_sizes(recipe))}"
    differs = [
        exits,
        sizes,
        "as if no size fitted" if recipe.padding is not None else "",
        "" if recipe.answers == STANDARD else ANSWERS[recipe.answers],
        FOLDINGS[recipe.folding],
        "nothing merged" if recipe.unmerged_reason else "",
        PROMISES[recipe.promise],
    ]
    return ", ".join(filter(None, [" and ".join(merged) or PLAIN, *differs]))


def outcome_in_words(outcome: Outcome, verified: bool, limits: str = "") -> str:
    """Describe an outcome: why the strategy was dropped, or that its file is right."""
    if isinstance(outcome, Right):
        right = f"right for {limits}" if limits else "right"
        return right if verified else "not verified"
    if isinstance(outcome, Wrong):
        return _wrong(outcome.error.proof)
    if isinstance(outcome, Refused):
        return refused_in_words(outcome.error)
    return f"needs another recording: {_offer(outcome)}"


def refused_in_words(error: Exception) -> str:
    if not isinstance(error, HxError):
        return f"refused: the model raised {type(error).__name__}"
    text = textwrap.shorten(error.what.splitlines()[0], BUDGET.shown.outcome, placeholder=" ...")
    return f"refused: {text}"


def _until(until: Until) -> str:
    true = ", with true answers" if until.times is None else ""
    return f"a loop that values end {_places([until.line])}{true}"


def _branches(branches: Branches) -> str:
    count = len(branches.lines)
    which = {0: "its branches", 1: "the branch"}.get(count, f"{count} branches")
    places = _places(branches.lines) if count < 3 else ""
    inputs = ", on inputs that were wrong" if branches.required else ""
    inputs = ", one answer after the other" if branches.in_turn else inputs
    return f"both ways of {which} {places}".rstrip() + inputs


def _places(lines: Sequence[Line]) -> str:
    found = " and ".join(f"{Path(file).name}:{line}" for file, line in lines)
    return f"at {found}" if found else ""


def _wrong(proof: Proof | None) -> str:
    """Name the first inputs on which a file is wrong: `wrong at n=4`, `wrong on fresh inputs`."""
    wrong = proof.wrong_cases if proof is not None else []
    if not wrong:
        return "wrong: the file cannot be run"
    name = wrong[0].name
    if re.fullmatch(r"\w+=\d+(, \w+=\d+)*", name):
        return f"wrong at {name}"
    return f"wrong on {name} inputs"


def _offer(offer: Offers) -> str:
    if isinstance(offer, OffersAnswers):
        return "a number left the graph"
    if isinstance(offer, OffersSizes):
        return "the model treats these sizes specially"
    if isinstance(offer, OffersBranches):
        return "the model asks about values"
    return "sizes decide its rounds"

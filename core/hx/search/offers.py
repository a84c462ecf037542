"""Offers of a recording: recipes that may put more of its control flow into the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..budget import BUDGET
from ..ir.knowledge import Knowledge
from ..ir.outcome import (
    Failure,
    Offers,
    OffersAnswers,
    OffersBranches,
    OffersLoops,
    OffersSizes,
    Refused,
    Wrong,
)
from ..ir.recipe import TRACING, Leaks, Line, Recipe, Until
from ..merging import loops
from ..merging.loops.until import untils
from ..proof.subject import Subject
from ..recording.reads.questions import until_asked
from ..recording.trace import Trace
from ..report import Report
from . import recipes
from .informative_sizes import at_informative_sizes
from .loop_inputs import with_loops

NO_ONE_GRAPH = (
    "the branches cannot be merged into one graph; write them with torch.where, or in another order"
)
BESIDE_LOOPS = (
    "branches outside of the loop are recorded with one answer; torch.where computes both sides"
)
IN_ROUNDS = (
    "the branches in its rounds do not become one If in a loop. Possible reasons are values of "
    "different shapes on its sides, a break, or a model that runs too long to be recorded for each "
    "round; torch.where computes both sides"
)


def offers(subject: Subject, report: Report, verify: bool, each_node: bool) -> Offers | None:
    """Return recipes that are worth trying in place of this recording, or None."""
    trace, recipe = subject.trace, subject.recipe
    if leaves_more(recipe, report, subject.recorder.knowledge):
        return OffersAnswers()
    if not recipe.offers:
        return None
    # Without a proof, a loop would be a guess: the recording is right for its own inputs.
    if verify and (other := with_loops(subject)) is not None:
        asked = bool(loops.asked_in_rounds(trace))
        if (asked or may_be_merged(trace)) and not each_node:
            other = recipes.with_branches(other, _lines_of_values(trace))
        numbered = None if each_node else recipes.with_numbered_rounds(other)
        ended = until_ended(trace) if may_be_merged(trace) and not each_node else []
        return OffersLoops(other, numbered, asked, tuple(replace(u, sized=True) for u in ended))
    if verify and (there := at_informative_sizes(subject)) is not None:
        return OffersSizes(there)
    branches = may_be_merged(trace)
    ended = until_ended(trace) if verify else []
    if (branches or ended) and not each_node:
        again = frozenset(loops.asked_in_rounds(trace))
        return OffersBranches(branches, tuple(ended), again, _lines_of_values(trace))
    return None


def leaves_more(recipe: Recipe, report: Report, knowledge: Knowledge) -> bool:
    """Return True if something left the graph, and other answers to the model may keep it there.

    Libraries that ask whether they are traced, and get True, keep a number in a tensor, which PyTorch's tracer
    follows into a shape. Otherwise they ask for the number, which hx follows. A recording with
    other answers is used only if nothing leaves the graph then; else the first recipe runs again.
    """
    # A number from item() is followed, until it is reported otherwise.
    left = [e.kind for e in report.escapes if not e.carried and e.kind != "item"]
    if recipe.leaks is Leaks.OFFER:
        return "index" in left and TRACING in knowledge.asked
    return recipe.leaks is Leaks.REFUSE and bool(left)


def may_be_merged(trace: Trace) -> bool:
    """Return True if the model asks questions about values, and few enough to follow them all."""
    asked = [q for q in trace.questions if q.of_values]
    return (
        0 < len(asked) <= BUDGET.runs.lines_of_values and not trace.recipe.request.weights.streamed
    )


def _lines_of_values(trace: Trace) -> tuple[Line, ...]:
    return tuple(dict.fromkeys(q.line for q in trace.questions if q.of_values))


def until_ended(trace: Trace) -> list[Until]:
    """Return the questions that may end a loop."""
    return [] if trace.recipe.request.weights.streamed else untils(trace)


def asked_again(trace: Trace, until: Until) -> bool:
    return len(until_asked(trace.questions, until)) > 1


def why_unmerged(failures: Sequence[Failure]) -> str:
    """Explain why recordings of a model with questions about values do not become one graph."""
    first, last = failures[0], failures[-1]
    for each in failures:
        if isinstance(each, Refused) and each.baked_at is not None:
            return (
                f"a number that is read at {each.baked_at} would be fixed in the other branch, and no "
                "inputs are known that lead there"
            )
    if isinstance(first, OffersBranches) and len(first.asked_again) > 1:
        places = [f"{file}:{line}" for file, line in sorted(first.asked_again)]
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        lines = (", " if more else " and ").join(places[:3]) + more
        return (
            f"the questions at {lines} are asked again and again, and the graph can have a loop that "
            "values end only if its rounds ask nothing else. Write an `if` in the rounds with "
            "torch.where. Of two such loops, give one a fixed number of rounds, and let torch.where "
            "keep the values that are finished"
        )
    proof = last.error.proof if isinstance(last, Wrong) else None
    wrong = [case.name for case in proof.wrong_cases[:2]] if proof is not None else []
    if wrong:
        return f"the graph with all branches is wrong on {' and '.join(wrong)} inputs"
    if isinstance(first, OffersLoops) and first.asks_in_rounds:
        return IN_ROUNDS
    return NO_ONE_GRAPH if isinstance(first, OffersBranches) else ""


def selectable_ifs(first: Failure, knowledge: Knowledge) -> dict[Line, bool]:
    """Return the Ifs in loops that a recording went through, and that select between their sides.

    True stands for those that count numbers or append to lists.
    """
    lines: Sequence[Line] = ()
    if isinstance(first, OffersBranches):
        lines = first.lines
    elif isinstance(first, OffersLoops) and first.recipe.flow.branches is not None:
        lines = first.recipe.flow.branches.lines
    elif isinstance(first, Wrong) and first.error.report is not None:
        lines = [(each.where.file, each.where.line) for each in first.error.report.escapes]
    return {line: knowledge.selectable[line] for line in lines if line in knowledge.selectable}


def branches_on_values(failure: Failure) -> bool:
    """Return True if a file is wrong, and has a branch on values that is fixed as recorded."""
    if not isinstance(failure, Wrong) or failure.error.report is None:
        return False
    return any(
        escape.kind == "branch" and escape.asks_of_values()
        for escape in failure.error.report.escapes
    )

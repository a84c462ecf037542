"""Search for a recipe that gives a right file, as a tree of strategies.

A strategy is a generator: it yields recipes, receives the outcome of each, and returns the last
outcome. The table in `README.md`, beside this file, lists them in the order in which they are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TypeAlias

from ..budget import BUDGET
from ..errors import Differentiates, HxError
from ..ir.knowledge import Knowledge
from ..ir.outcome import (
    Failure,
    Inputs,
    OffersAnswers,
    OffersBranches,
    OffersLoops,
    OffersSizes,
    Outcome,
    Refused,
    Right,
    Wrong,
    is_unsupported,
)
from ..ir.recipe import (
    STANDARD,
    Branches,
    Folding,
    Forced,
    Leaks,
    Line,
    Padded,
    Promise,
    Recipe,
    Sizing,
    Until,
)
from ..ir.request import Request
from ..merging.branches import TooManyWays
from ..recording.calls.choices import Choices
from ..recording.runs import derivatives
from ..torchworld.spelling.respelling import reaches_more
from . import recipes
from .answers import answers_to_try
from .history import History, needs_derivatives
from .offers import branches_on_values, selectable_ifs, why_unmerged

# Inputs on which files were wrong, by name. A strategy notes them in the `failed` of its caller, or
# in a dict of its `own`, where they say nothing about the caller's other recipes.
Failed: TypeAlias = dict[str, Inputs]
Steps: TypeAlias = Generator[Recipe, Outcome, Failure]


def strategies(
    request: Request, history: History, choices: Callable[[], Choices]
) -> Generator[Recipe, Outcome, None]:
    """Yield the recipes to try, one after the other, as long as the outcomes sent are failures."""
    failed: Failed = {}
    ends: list[Failure] = []
    recipe = Recipe(request, request.call.tensors)
    for answers in answers_to_try(history.knowledge.asked):
        leaks, sizing = Leaks.ACCEPT, Sizing.GIVEN
        if not history:
            leaks, sizing = Leaks.OFFER, Sizing.OFFER
        elif isinstance(history.first, OffersAnswers):
            leaks = Leaks.REFUSE
        plain = replace(recipe, answers=answers, offers=True, leaks=leaks, sizing=sizing)
        ends.append((yield from with_these_answers(plain, history, failed)))
    if isinstance(history.first, OffersAnswers):
        mark = history.mark()
        yield from with_control_flow(replace(recipe, offers=True), history, failed)
        history.keep_first_since(mark)  # the real effect of the number that leaves the graph
    if needs_derivatives(history.first):
        yield from traced_derivatives(recipe, history, choices)
    if isinstance(history.first, Wrong):
        yield from at_odd_sizes(recipe, history.first, history, failed)
    first = history.first
    if isinstance(first, Wrong) or (isinstance(first, Refused) and first.strict):
        yield from branches_on_failed(recipe, first, history, failed)
        yield from asked_in_turn(recipe, first, failed)
    for plainly in (first, *ends[:1]):
        if isinstance(plainly, Wrong) and recipes.may_hold_from_here_on(recipe, plainly):
            yield from tried(replace(recipe, promise=Promise.ONWARD), failed)
            break
    if history.right_onward is not None:
        yield from tried(replace(history.right_onward, promise=Promise.ONWARD), failed)


def tried(recipe: Recipe, failed: Failed) -> Steps:
    """Yield one recipe, and note the inputs for which its file is wrong."""
    outcome = yield recipe
    assert not isinstance(outcome, Right)  # a right outcome ends the search
    if isinstance(outcome, Wrong):
        for name, inputs in outcome.failed.items():
            failed[name] = inputs
    return outcome


def with_these_answers(plain: Recipe, history: History, failed: Failed) -> Steps:
    """Record the model with one set of answers to questions about tracing."""
    mark = history.mark()
    last = yield from with_control_flow(plain, history, failed)
    while may_respell_more(history.knowledge, last):
        history.forget(mark)
        last = yield from with_control_flow(plain, history, failed)
    return last


def with_control_flow(plain: Recipe, history: History, failed: Failed) -> Steps:
    """Record the model as it runs; then merge the control flow that this finds."""
    mark = history.mark()
    first = yield from tried(plain, failed)
    if isinstance(first, OffersSizes):
        yield from with_control_flow(first.recipe, history, {})
        history.forget(mark)
        plain = replace(plain, sizing=Sizing.GIVEN)
        first = yield from tried(plain, failed)
    if wrong_at_given(plain, first):
        return first  # the given sizes lead the model another way
    while may_respell_more(history.knowledge, first):
        history.forget(mark)
        first = yield from tried(plain, failed)
    recipe = plain.derived
    selectable = selectable_ifs(first, history.knowledge)
    counting = any(selectable.values())  # these become no Ifs of the graph
    if counting:
        yield from selections(plain, history)
    last = yield from padded(recipe, first, history)
    if isinstance(first, (OffersBranches, OffersLoops)):
        if isinstance(first, OffersBranches):
            yield from branches(recipe, first, history, failed)
        else:
            yield from loops(first, history, failed)
        recipe = replace(recipe, unmerged_reason=why_unmerged(history.since(mark)))
        if selectable and not counting:  # the model may raise on a side that it does not take
            yield from selections(plain, history)
        history.forget(mark)
        last = yield from tried(recipe, failed)
        last = yield from padded(recipe, last, history)
    return (yield from formulas(recipe, last, history, failed))


def branches(plain: Recipe, offer: OffersBranches, history: History, failed: Failed) -> Steps:
    """Merge the ways that values decide, or the rounds of loops that they end."""
    last: Failure = offer
    for until in offer.untils:
        last = yield from ended_by_values(plain, until, failed)
    if not offer.branches:
        return last
    own: Failed = {}
    recipe = recipes.with_branches(plain, offer.lines)
    merged = last = yield from tried(recipe, own)
    recipe = as_carried_out(recipe, merged)
    last = yield from padded(recipe, last, history)
    last = yield from formulas(recipe, last, history, own)
    if recipe.flow.branches and own and isinstance(merged, Wrong):
        last = yield from branches_on_failed(plain, merged, history, own)
    return last


def ended_by_values(plain: Recipe, until: Until, failed: Failed) -> Steps:
    """Merge the rounds of a loop that goes on until a value ends it."""
    last = yield from tried(plain.with_flow(until=until), failed)
    if is_unsupported(last) and plain.folding is not Folding.SELECTING:
        counting = replace(plain.with_flow(until=until), folding=Folding.COUNTING)
        last = yield from tried(counting, failed)
    if raised_by_model(last):
        last = yield from true_rounds(plain, until, failed, last)
    if until.breaks:
        # Maybe nothing is left to do: then going on is as right as stopping.
        endless = replace(plain, forced=Forced(by_line=dict(until.breaks)))
        last = yield from true_rounds(endless, until, failed, last)
    return last


def true_rounds(plain: Recipe, until: Until, failed: Failed, last: Failure) -> Steps:
    """Record a loop with true answers, and with inputs that lead to enough rounds.

    This is for a model that takes one more from the rest until nothing is left, and raises an error
    where the answer is to go on.
    """
    if until.truly < 2:
        return last  # these inputs do not lead to several rounds
    truly = plain.with_flow(until=replace(until, times=None))
    if until.truly < BUDGET.rounds.short:
        larger = recipes.larger_by(truly, BUDGET.rounds.larger_factor)
        return last if larger is None else (yield from tried(larger, failed))
    return (yield from tried(truly, failed))


def loops(offer: OffersLoops, history: History, failed: Failed) -> Steps:
    """Merge the rounds of loops whose lengths follow from sizes."""
    recipe, own = offer.recipe, {} if offer.recipe.flow.branches else failed
    last = yield from tried(recipe, own)
    recipe = as_carried_out(recipe, last)
    selects = recipe.folding is Folding.SELECTING  # which leaves nothing to unfold
    if not selects:
        recipe, last = yield from unfolded(recipe, last, own)
    if not recipe.flow.branches and branches_on_values(last):
        # In more rounds, the model may ask new questions: whether a list has anything in it.
        branches = Branches(variations=tuple(own.values())[: BUDGET.runs.failed_inputs])
        recipe, own = recipe.with_flow(branches=branches), {}
        last = yield from tried(recipe, own)
        recipe = as_carried_out(recipe, last)
    if offer.numbered is not None:
        yield from numbered_rounds(offer.numbered, last, history)
    yield from ended_by_either(offer, history)
    if isinstance(last, Wrong):
        anew = recipes.loops_at_odd_sizes(recipe, own)
        if anew is not None:
            last = yield from tried(anew, {})
    last = yield from padded(recipe, last, history)
    last = yield from formulas(recipe, last, history, own)
    if recipe.flow.branches:
        last = yield from tried(recipe.without_branches(), own)
    return last


def unfolded(
    recipe: Recipe, last: Failure, failed: Failed
) -> Generator[Recipe, Outcome, tuple[Recipe, Failure]]:
    """Merge rounds of which the first, whose state is still a constant, differ from the others."""
    if not is_unsupported(last) and not (isinstance(last, Wrong) and last.may_run_zero_times):
        return recipe, last
    for folding in (Folding.UNFOLDED, Folding.COUNTING):
        if folding is Folding.UNFOLDED and was_unfolded(last):
            continue
        if is_unsupported(last) or isinstance(last, Wrong):
            recipe = replace(recipe, folding=folding)
            last = yield from tried(recipe, failed)
            recipe = as_carried_out(recipe, last)
    return recipe, last


def selections(plain: Recipe, history: History) -> Generator[Recipe, Outcome, None]:
    """Compute both sides of the Ifs in loops. Failures are not reported."""
    if plain.folding is Folding.SELECTING:
        return
    mark = history.mark()
    yield from with_control_flow(replace(plain, folding=Folding.SELECTING), history, {})
    history.forget(mark)


def numbered_rounds(recipe: Recipe, last: Failure, history: History) -> Steps:
    """Merge rounds that differ by their number. Failures speak for rounds without numbers."""
    mark = history.mark()
    selects = recipe.folding is Folding.SELECTING
    for folding in [recipe.folding] if selects else [Folding.FOLDED, Folding.UNFOLDED]:
        if folding is Folding.UNFOLDED and was_unfolded(last):
            continue
        if is_unsupported(last) or isinstance(last, Wrong):
            last = yield from tried(replace(recipe, folding=folding), {})
    history.forget(mark)
    return last


def ended_by_either(offer: OffersLoops, history: History) -> Generator[Recipe, Outcome, None]:
    """Merge the rounds of a loop that a value may end before as many as a size says."""
    mark = history.mark()
    for until in offer.untils:
        recipe = offer.recipe.ended_by(until)
        last = yield from tried(recipe, {})
        if is_unsupported(last) and recipe.folding is not Folding.SELECTING:
            yield from tried(replace(recipe, folding=Folding.COUNTING), {})
    history.forget(mark)


def padded(recipe: Recipe, last: Failure, history: History) -> Steps:
    """Record the model with the answer that sizes do not fit.

    This is for a model that asks whether sizes leave a remainder, or are equal. On lines where it
    raises an error then, it gets the true answer. Its other questions about sizes are recorded both
    ways.
    """
    if not isinstance(last, Wrong) or recipe.answers != STANDARD:
        return last
    other = recipes.padded(recipe, last.error)
    if other is None:
        return last
    own: Failed = {}
    known = len(history.knowledge.padded_lines)
    last = yield from tried(other, own)
    while raised_by_model(last) and (line := true_line(other, history.knowledge, known)):
        assert other.padding is not None
        other = replace(other, padding=Padded(other.padding.true_lines | {line}))
        known = len(history.knowledge.padded_lines)
        last = yield from tried(other, own)
    if isinstance(last, Wrong):
        idle = len(history.knowledge.padded_lines) == known
        last = yield from branches_on_failed(other, last, history, own, idle)
    return last


def formulas(recipe: Recipe, last: Failure, history: History, failed: Failed) -> Steps:
    """Compute numbers that follow from sizes in an unknown way, by further recordings."""
    if not isinstance(last, Wrong):
        return last
    followed = recipes.with_formulas(recipe, history.knowledge.wrong_sizes, last.error.proof)
    if followed is None:
        return last
    known = len(history.knowledge.wrong_sizes)
    last = yield from tried(followed, failed)
    wrong = history.knowledge.wrong_sizes[known:]
    if wrong and isinstance(last, Wrong):  # beyond the range of a formula
        ended = followed.with_flow(formulas=(*followed.flow.formulas[:-1], wrong[0]))
        last = yield from tried(as_carried_out(ended, last), failed)
    return last


def traced_derivatives(plain: Recipe, history: History, choices: Callable[[], Choices]) -> Steps:
    """Record PyTorch's trace of a model that differentiates as it runs."""
    first = history.first
    assert isinstance(first, Refused) and isinstance(first.error, Differentiates)
    other = derivatives.traced(plain, choices(), first.error)
    return first if other is None else (yield from tried(other, {}))


def at_odd_sizes(plain: Recipe, first: Wrong, history: History, failed: Failed) -> Steps:
    """Record the model at other sizes if its file was right only at the recorded ones."""
    last: Failure = first
    other = recipes.at_odd_sizes(plain, failed, first.error.proof)
    for answers in answers_to_try(history.knowledge.asked) if other is not None else ():
        assert other is not None
        there = replace(other, answers=answers)
        last = yield from tried(there, failed)
        if isinstance(last, Wrong):
            last = yield from branches_on_failed(there, last, history, failed)
    return last


def branches_on_failed(
    recipe: Recipe, failure: Wrong | Refused, history: History, failed: Failed, idle: bool = False
) -> Steps:
    """Merge the ways that the model goes on inputs for which its files were wrong.

    Where there are more ways than are recorded, it is not tried again from other inputs, nor without
    a padding that was `idle`: it changed no answer.
    """
    assert isinstance(failure.error, HxError)
    report = failure.error.report
    other = recipes.with_branches_on(recipe, failed, report.escapes if report else ())
    if other is None or other.flow.branches is None:
        return failure
    padding = None if idle else other.padding
    asked = other.answers, padding, frozenset(other.flow.branches.lines)
    if asked in history.knowledge.too_many_ways:
        return failure
    last = yield from tried(other, failed)
    if isinstance(last, Refused) and isinstance(last.error, TooManyWays):
        history.knowledge.too_many_ways.add(asked)
    return last


def asked_in_turn(
    recipe: Recipe, failure: Wrong | Refused, failed: Failed
) -> Generator[Recipe, Outcome, None]:
    """Merge both answers to each question that a fixed number of rounds asks."""
    assert isinstance(failure.error, HxError)
    other = recipes.with_branches_in_turn(recipe, failure.error)
    if other is not None:
        yield from tried(other, failed)


def true_line(recipe: Recipe, knowledge: Knowledge, known: int) -> Line | None:
    """Return the line of the last answer that sizes do not fit, unless it is true already."""
    heard = knowledge.padded_lines[known:]
    assert recipe.padding is not None
    return heard[-1] if heard and heard[-1] not in recipe.padding.true_lines else None


def may_respell_more(knowledge: Knowledge, outcome: Failure) -> bool:
    """Return whether the next recording will respell more code than this one."""
    may_differ = not isinstance(outcome, Refused) or outcome.unsupported or outcome.strict
    return may_differ and reaches_more(knowledge)


def wrong_at_given(recipe: Recipe, outcome: Failure) -> bool:
    """Return whether a file that is recorded at other sizes is wrong on the user's inputs."""
    proof = outcome.error.proof if isinstance(outcome, Wrong) else None
    checks = [] if proof is None or recipe.sizing is not Sizing.INFORMATIVE else proof.cases
    return any(check.name in recipe.also_proved and not check.ok for check in checks)


def raised_by_model(outcome: Failure) -> bool:
    return isinstance(outcome, Refused) and outcome.raised_by_model


def was_unfolded(outcome: Failure) -> bool:
    """Return whether an unfolded recording would be merged as this one was."""
    return isinstance(outcome, Refused) and outcome.unfolded


def as_carried_out(recipe: Recipe, outcome: Failure) -> Recipe:
    """Return a recipe without branches if no inputs led along another one."""
    one_way = isinstance(outcome, (Wrong, Refused)) and outcome.one_way
    return recipe.without_branches() if one_way else recipe

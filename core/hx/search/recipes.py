"""Recipes that are derived from another one, and from the outcome it had."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..budget import BUDGET
from ..errors import HxError, VerificationError
from ..ir.escapes import Escape
from ..ir.outcome import Wrong
from ..ir.recipe import Branches, Line, Loops, Padded, Recipe, Sizes
from ..ir.request import Inputs
from ..ir.sizes.remainders import fits
from ..merging.loops import Before
from ..proof.proof import Proof
from ..samples.signs_and_scales import large, mixed, negative, opposite, positive, small, zeroed
from ..samples.sizes import at, larger, sizes_of
from ..samples.variations import fresh
from ..tensor_bytes import same_numbers
from ..torchworld.state import shallow

OFFSETS = (1, 2, 5, 11)  # differences between the sizes of further recordings
# Kinds of escapes with which a model may go another way.
ASKING = {"bool", "branch", "item", "is_nonzero"}


def with_branches(recipe: Recipe, lines: tuple[Line, ...] = ()) -> Recipe:
    """Merge the ways that the model goes on inputs with other values."""
    given = recipe.inputs
    alike = [{k: change(t) for k, t in given.items()} for change in (opposite, small, large)]
    alike += [fresh(given, seed=21), {k: mixed(t) for k, t in given.items()}]
    # Before zeros: these lead many ways, too, but may hide what is computed there.
    alike += [{k: change(t) for k, t in given.items()} for change in (positive, negative)]
    alike += [*zeroed(given).values()][:1]
    variations = tuple(_different(alike, [given]))
    return recipe.with_flow(branches=Branches(variations=variations, lines=lines))


def with_branches_on(
    recipe: Recipe, failed: dict[str, Inputs], escapes: Sequence[Escape]
) -> Recipe | None:
    """Merge the ways that the model goes on inputs for which files were wrong, and on variations of
    these: a model with two branches goes four ways."""
    asking = [escape.where for escape in escapes if escape.kind in ASKING]
    if not asking or recipe.request.weights.streamed:
        return None
    is_large = shallow.weight_bytes(recipe.call.root) >= BUDGET.bytes.light_weights
    limit = BUDGET.runs.branch_inputs // 4 if is_large else BUDGET.runs.branch_inputs
    wrong = list(failed.values())[: limit // 3]
    alike = []
    usual = BUDGET.elements.repeated_inputs_factor * _elements(recipe.inputs)
    for inputs in wrong:
        if _elements(inputs) > usual:
            continue  # such large inputs are recorded only once
        alike.append({name: opposite(tensor) for name, tensor in inputs.items()})
        alike += [fresh(inputs, seed=seed) for seed in (21, 22)]
        alike.append({name: small(tensor) for name, tensor in inputs.items()})
    alike = _different(alike, [recipe.inputs, *wrong])[: limit - len(wrong)]
    lines = tuple(dict.fromkeys(where.file_line for where in asking if where.file))
    branches = Branches(tuple(wrong), tuple(alike), other_sizes=True, lines=lines)
    return recipe.with_flow(branches=branches)


def with_branches_in_turn(recipe: Recipe, error: HxError) -> Recipe | None:
    """Record other answers one by one, where a line asks about values again and again."""
    if error.report is None or recipe.request.weights.streamed:
        return None
    asking = [
        escape
        for escape in error.report.escapes
        if escape.kind in ASKING and escape.count >= BUDGET.rounds.alike and not escape.carried
    ]
    nodes = error.report.nodes
    room = max(BUDGET.nodes.branches, BUDGET.nodes.branches_factor * nodes)
    if not asking or nodes * sum(escape.count for escape in asking) > room:
        return None
    lines = tuple(dict.fromkeys((each.where.file, each.where.line) for each in asking))
    other = with_branches(recipe, lines)
    assert other.flow.branches is not None
    other = other.with_flow(branches=replace(other.flow.branches, in_turn=True))
    return replace(other, limit=_room(nodes, BUDGET.nodes.in_turn_addition))


def with_numbered_rounds(recipe: Recipe) -> Recipe:
    """Merge rounds that differ by their number: the graph counts them for the model."""
    loops = recipe.flow.loops
    counting = () if loops is None else loops.counting
    return with_branches(recipe).with_flow(loops=Loops(Before([]), True, counting))


def loops_at_odd_sizes(recipe: Recipe, failed: dict[str, Inputs]) -> Recipe | None:
    """Merge the same rounds, with other sizes that do not determine the number of rounds.

    The model computes again what it has kept for the given sizes.
    """
    given = recipe.given
    words, before = sizes_of(recipe), sizes_of(recipe, given)
    kept = {word: n for word, n in words.items() if n == before[word]}
    more = _odd(recipe, kept, failed) if len(words) > 1 else None
    if not more:
        return None
    return replace(recipe, inputs=at(recipe, {**words, **more}), also_proved={"given": given})


def padded(recipe: Recipe, error: VerificationError) -> Recipe | None:
    """Record the model as if it always padded, or resized, where it asks whether it has to."""
    if error.report is None or recipe.flow.until is not None:
        return None
    asked = (asked for escape in error.report.escapes for asked in escape.asked)
    if all(fits(each) is None for each in asked):
        return None
    return replace(
        recipe, padding=Padded(), limit=_room(error.report.nodes, BUDGET.nodes.forced_addition)
    )


def _room(nodes: int, more: int) -> int:
    """Limit a recording with false answers: a loop that runs until nothing is left never ends."""
    return BUDGET.nodes.forced_factor * nodes + more


def with_formulas(recipe: Recipe, wrong_sizes: list[Sizes], proof: Proof | None) -> Recipe | None:
    """Record the model at other sizes, too, if only the recorded ones were right.

    Some of its numbers may follow from sizes.
    """
    words, limits = sizes_of(recipe), recipe.request.sizes.limits
    if (
        not words
        or recipe.request.weights.streamed
        or recipe.flow.formulas
        or not _wrong_elsewhere(proof)
    ):
        return None
    if all(sizes == words for sizes in wrong_sizes):
        return None  # the file is wrong for other values, not for other sizes
    steps = {word: limits[word].step for word in words}
    for word, n in words.items():
        if n >= 64 and n % 32 == 0 and 32 % steps[word] == 0:
            steps[word] = 32  # as odd after several strides as now
    several: list[Sizes] = []
    for turn in range(len(OFFSETS)):
        sizes = {}
        for place, (word, n) in enumerate(words.items()):
            more = OFFSETS[(turn + place) % len(OFFSETS)] * steps[word]
            sizes[word] = n + more if limits[word].hold(n + more) else n - more
        if min(sizes.values()) < 1 or not limits.hold(sizes):
            return None
        several.append(sizes)
    several.append({word: 2 * limits[word].step for word in words})
    return recipe.with_flow(formulas=tuple(several))


def larger_by(recipe: Recipe, times: int) -> Recipe | None:
    """Record so many times as much of everything that may have another size."""
    words, limits = sizes_of(recipe), recipe.request.sizes.limits
    more = {word: n * times for word, n in words.items()}
    if not words or not limits.hold(more) or recipe.request.weights.streamed or recipe.at_odd_sizes:
        return None
    return replace(recipe, inputs=at(recipe, more), also_proved={"given": recipe.given})


def at_odd_sizes(recipe: Recipe, failed: dict[str, Inputs], proof: Proof | None) -> Recipe | None:
    """Record the model at other sizes, where it was right at the recorded ones alone.

    A model that has run before may have kept what it computed then for these sizes: a grid, a mask.
    At sizes that are new to it, it computes that again, where the graph sees it. Beyond a question
    about small sizes, all larger ones may be promised. And what is right for even sizes alone
    (nothing has to be padded) may be right for all where they are odd, as they are behind several
    strides, too.
    """
    words = sizes_of(recipe)
    if (
        not words
        or recipe.request.weights.streamed
        or recipe.also_proved
        or not _right_here_alone(proof)
        or _has_other_ranks_here(recipe, words, failed, proof)
    ):
        return None
    more = _odd(recipe, words, failed)
    if more is None:
        return None
    here = [each for each in failed.items() if sizes_of(recipe, each[1]) == words]
    given = {"given": recipe.inputs, **dict(here[: BUDGET.runs.wrong_before])}
    return replace(recipe, inputs=at(recipe, more), also_proved=given)


def may_hold_from_here_on(recipe: Recipe, wrong: Wrong) -> bool:
    """Return whether a file is right at the recorded sizes, and wrong only at smaller ones."""
    words = sizes_of(recipe)
    there = [sizes_of(recipe, inputs) for inputs in wrong.failed.values()]
    smaller = (any(sizes[word] < n for word, n in words.items()) for sizes in there)
    return bool(there) and _right_here_alone(wrong.error.proof) and all(smaller)


def _right_here_alone(proof: Proof | None) -> bool:
    """Return whether the recorded case is right and another is wrong."""
    return proof is not None and bool(proof.cases) and proof.cases[0].ok and not proof.ok


def _has_other_ranks_here(
    recipe: Recipe, words: Sizes, failed: dict[str, Inputs], proof: Proof | None
) -> bool:
    """Return True if results have another number of axes, and not at smaller sizes alone."""
    checks = [] if proof is None else proof.cases
    unlike = [check.name for check in checks if any(output.other_rank for output in check.outputs)]
    for name in unlike:
        inputs = failed.get(f"given {name}")
        sizes = words if inputs is None else sizes_of(recipe, inputs)
        if sizes == words or any(sizes[word] > n for word, n in words.items()):
            return True
    return False


def _wrong_elsewhere(proof: Proof | None) -> bool:
    """Return whether the recorded case is right and another is wrong, with as many axes."""
    if proof is None or not _right_here_alone(proof):
        return False
    # A graph has only one rank: no formula changes it.
    return not any(output.other_rank for case in proof.cases for output in case.outputs)


def _odd(recipe: Recipe, words: Sizes, failed: dict[str, Inputs]) -> Sizes | None:
    """Return new sizes of these names, no two alike; None if the limits allow none."""
    limits = recipe.request.sizes.limits
    known = [words, larger(words, limits)]
    known += [sizes_of(recipe, tensors) for tensors in failed.values()]
    more: Sizes = {}
    for word, n in words.items():
        taken = {*more.values(), *(sizes[word] for sizes in known)}
        more[word] = _odd_for_long(n, limits[word].step, taken)
    return more if limits.hold(more) else None


def _odd_for_long(n: int, step: int, taken: Collection[int]) -> int:
    """Return a larger size that is odd after some halvings: 224, 225, 113, 57, 29."""
    halved = 1 << max(1, (n // step // 2).bit_length() - 1)
    found = (n // step // halved * halved + 1) * step
    while found <= n or found in taken:
        found += halved * step
    return found


def _elements(inputs: Inputs) -> int:
    return sum(tensor.numel() for tensor in inputs.values())


def _different(alike: list[Inputs], known: list[Inputs]) -> list[Inputs]:
    """Return the inputs that equal no others: a turned sign changes no input without a sign."""
    found: list[Inputs] = []
    for inputs in alike:
        if not any(_same(inputs, other) for other in (*known, *found)):
            found.append(inputs)
    return found


def _same(a: Inputs, b: Inputs) -> bool:
    return all(tensor is b[name] or same_numbers(tensor, b[name]) for name, tensor in a.items())

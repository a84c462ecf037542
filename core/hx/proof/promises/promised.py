"""Sizes that a file is promised for, where it is wrong beyond the model's questions about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...budget import BUDGET
from ...errors import Where
from ...findings import CHECKED, OPEN, Finding
from ...ir.escapes import Escape
from ...ir.input_grammar import Limits, NamedLimits
from ...ir.recipe import Promise, Sizing
from ...ir.size_moves import Move
from ...ir.sizes.comparisons import At
from ...samples.sizes import Sizes, sizes_of
from ..cases.across import Across
from ..cases.asking import case_of
from ..file_proof import Case
from ..proof import CaseCheck, Proof
from ..subject import Subject
from .kept import Tried, kept


def narrow(subject: Subject, proof: Proof, tried: Tried) -> None:
    """Promise a file up to the model's questions about sizes, if it is wrong only beyond them.

    It has to be right from half (or 2) to twice the given sizes, or the export has failed; if the
    search has found nothing better, at the given sizes and all larger ones. Further cases within the
    limits are checked with `tried`.
    """
    failed = proof.wrong_cases
    _leave_out_tiny(subject, proof, failed)
    wrong = [check for check in failed if check.name in subject.beyond]
    users = subject.recipe.also_proved.keys() | subject.recipe.request.others.keys()
    given = any(check.name in users for check in failed)
    whole = subject.recipe.promise is Promise.NONE
    if proof.checker or proof.problem or given or whole or not wrong:
        return
    wrong = [check for check in wrong if subject.beyond[check.name][1].limits]
    moves = [subject.beyond[check.name][1] for check in wrong]
    if not moves or not all(_excludes(moves, subject, check) for check in failed):
        return
    limits, found, notes = _within(subject, moves, tried)
    proof.cases += found
    failed += found
    if limits is not None and mark_outside(subject, failed, limits):
        _promise(subject, wrong, limits)
        subject.notes += [Finding(CHECKED, text) for text in notes]


def _excludes(moves: Sequence[Move], subject: Subject, check: CaseCheck) -> bool:
    """Return True unless a case is within all limits that was tried because a number left.

    A question about several sizes may become a branch: it is not left out with others.
    """
    known = subject.beyond.get(check.name)
    if known is None or known[1].limits:
        return True
    sizes = {**sizes_of(subject.recipe), **known[1].sizes}
    return known[0].kind != "branch" and not all(move.holds(sizes) for move in moves)


def _leave_out_tiny(subject: Subject, proof: Proof, failed: Sequence[CaseCheck]) -> None:
    """Note the limits that exclude sizes of 0 and 1, if a file is wrong at such sizes alone.

    They broadcast, and PyTorch has ways of its own for them, about which nobody asks. Sizes at which
    the file is right for other values are not the cause. Of a merge, another one may be right there:
    they are left out only if the search has found nothing better. Then, if nothing left the graph, all
    sizes that are smaller than recorded may be left out.
    """
    if subject.recipe.flow.reorders and subject.recipe.promise is not Promise.ONWARD:
        return
    recorded, larger = sizes_of(subject.recipe), _may_promise_onward(subject)
    at = {case.name: sizes_of(subject.recipe, case.feeds) for case in subject.cases}
    right = [at[check.name] for check in proof.cases if check.ok and check.name in at]
    if any(at.get(check.name) in right for check in failed):
        return
    ends = _tiny_ends(subject, larger)
    tiny: dict[str, set[str]] = {}
    for check in failed:
        if _is_unexplained(subject, check, right):
            sizes = at.get(check.name, {})
            tiny[check.name] = {w for w in ends.keys() & sizes.keys() if sizes[w] <= ends[w]}
    excluded = {
        word
        for name, words in tiny.items()
        for word in words
        if at[name] == {**recorded, word: at[name][word]}
    }
    if not all(words & excluded for words in tiny.values()):
        return
    why = "" if larger else "as sizes of 0 and 1 may be broadcast or squeezed"
    for name, words in tiny.items():
        out = {word: Limits(max(at[name][word], 1) + 1) for word in sorted(words & excluded)}
        subject.beyond[name] = Escape("lost", Where("", 0), why), Move(dict(at[name]), out)


def _may_promise_onward(subject: Subject) -> bool:
    """Return True in the last attempt, unless what left the graph may be wrong at larger sizes, too."""
    lost = any(escape.level(True) == OPEN for escape in subject.escapes.values())
    return subject.recipe.promise is Promise.ONWARD and not lost


def _tiny_ends(subject: Subject, larger: bool) -> Sizes:
    """Return the largest size of each name that may be left out: 1, or all below the recorded one."""
    limits = subject.recipe.request.sizes.limits
    return {
        word: n - 1 if larger else 1
        for word, n in sizes_of(subject.recipe).items()
        if n > 1 >= limits[word].low
    }


def _is_unexplained(subject: Subject, check: CaseCheck, right: Sequence[Sizes]) -> bool:
    """Return True if no question of the model is known to be the cause of a wrong result.

    In the end, one is not the cause if the file is right elsewhere on its other side.
    """
    recipe, known = subject.recipe, subject.beyond.get(check.name)
    late = recipe.promise is Promise.ONWARD
    return known is None or (late and not all(map(known[1].holds, right)))


def _within(
    subject: Subject, moves: Sequence[Move], tried: Tried
) -> tuple[NamedLimits | None, list[CaseCheck], list[str]]:
    """Try sizes within the limits of these moves; return the limits that are left, and failures.

    There are no limits if next to nothing is left. The last result is notes on the failures.
    """
    recipe, limits = subject.recipe, NamedLimits(subject.recipe.request.sizes.limits)
    # The recorded sizes may be others: larger ones for a loop, or less special ones.
    given = sizes_of(recipe, None if recipe.at_odd_sizes else recipe.given)
    words: dict[str, None] = {}
    for move in moves:
        for word, limit in move.limits.items():
            words[word] = None
            limits[word] = limits[word].and_also(limit)
    failed: list[CaseCheck] = []
    notes: list[str] = []
    # No limit is to be near to less special sizes, either.
    here = sizes_of(recipe) if recipe.sizing is Sizing.INFORMATIVE else given

    def little(word: str) -> bool:
        if recipe.promise is Promise.ONWARD and limits[word].high is None:
            return limits[word].low > given[word]
        return any(_next_to_nothing(limits[word], sizes[word]) for sizes in (given, here))

    if any(map(little, words)):
        return None, failed, notes
    for word in words:
        asked = limits[word].briefly(word)
        limits[word], found = kept(subject, word, limits[word], given, tried)
        failed += found
        if found:
            told = ", ".join(check.name for check in found[: BUDGET.shown.sizes])
            more = ", and more" if len(found) > BUDGET.shown.sizes else ""
            notes.append(f"within {asked} it was wrong as well, at {told}{more}")
        if little(word):
            return None, failed, notes
    return limits, failed, notes


def mark_outside(subject: Subject, failed: Sequence[CaseCheck], limits: NamedLimits) -> bool:
    """Write into failed cases which limits exclude them, if that is so for all; else return False.

    Size 1 is always tried, so the limits of a question need not exclude all that is wrong.
    """
    sizes = {case.name: sizes_of(subject.recipe, case.feeds) for case in subject.cases}
    broken = [
        [
            limits[word].briefly(word)
            for word, n in sizes[check.name].items()
            if not limits[word].hold(n)
        ]
        for check in failed
    ]
    if not all(broken):
        return False
    for check, by in zip(failed, broken):
        check.outside = ", ".join(by)
    return True


def _promise(subject: Subject, wrong: Sequence[CaseCheck], promised: Mapping[str, Limits]) -> None:
    """Promise the limits of the questions that explain the wrong cases, and note why."""
    known: set[tuple[str, str]] = set()
    for check in wrong:
        escape, move = subject.beyond[check.name]
        limits = {word: promised[word] for word in move.limits}
        check.outside = ", ".join(limit.briefly(word) for word, limit in limits.items())
        subject.promised.update(limits)
        escape.beyond = escape.beyond.replace(f"tried at {check.name}", f"wrong at {check.name}")
        asked = _why(escape)
        told = escape.kind == "lost" and {word for word, _ in known} >= limits.keys()
        if (
            not told and not {(word, asked) for word in limits} <= known
        ):  # else the nearest sizes have been reported
            text = f"the file is right for {check.outside} only: at {check.name} {asked}"
            subject.notes.append(Finding(CHECKED, text, escape.where))
        known.update((word, asked) for word in limits)


def _why(escape: Escape) -> str:
    if escape.kind == "lost":
        return ", ".join(filter(None, ("it is wrong", escape.detail)))
    baked = escape.kind == "baked"
    what = "what is baked in is another number" if baked else "the model goes another way"
    return f"{what}, at {escape.where} ({escape.detail})"


def keep_to_what_ran(subject: Subject, proof: Proof) -> None:
    """Promise a size only as it was recorded, where the model has run at no other one.

    The graph may hold numbers of the recording in its place. An exception is a model that runs at
    no size by itself: PyTorch has operators that must be traced.
    """
    recipe, limits = subject.recipe, subject.recipe.request.sizes.limits
    ran = [sizes_of(recipe, case.feeds) for case in subject.cases]
    stuck = {
        word: (n, subject.promised.get(word, limits[word]))
        for word, n in sizes_of(recipe).items()
        if all(sizes[word] == n for sizes in ran)
    }
    stuck = {word: (n, limit) for word, (n, limit) in stuck.items() if limit.low != limit.high}
    if not proof.ok or not stuck or not case_of(subject, "recorded", dict(recipe.inputs))[0]:
        return
    for word, (n, limit) in stuck.items():
        subject.promised[word] = limit.and_also(Limits(n, n))
        texts = (each.text for each in (*subject.trace.findings, *subject.notes))
        why = next((text for text in texts if f"{word}=" in text), "")
        text = (
            f"the file is right for {word}={n} only, as far as anybody knows: no other size of "
            f"{word} could be tried" + (f" ({why})" if why else "")
        )
        subject.notes.append(Finding(CHECKED, text))


def may_be_ruled_out(subject: Subject, proof: Proof, case: Case) -> bool:
    """Return True if a case is beyond a question of the model, at sizes with a wrong result."""
    sizes, beyond = sizes_of(subject.recipe, case.feeds), subject.beyond
    wrong = [beyond[c.name][1] for c in proof.cases if not c.ok and c.name in beyond]
    return any(not move.holds(sizes) for move in wrong)


def _next_to_nothing(limit: Limits, n: int) -> bool:
    return limit.low > max(n // 2, 2) or (limit.high is not None and limit.high < 2 * n)


def may_matter(subject: Subject, escape: Escape, broken: Iterable[Sizes]) -> bool:
    """Return True if an escape may be at fault at some of these sizes.

    A branch on sizes that goes the same way at all of them is not.
    """
    if escape.kind != "branch" or not escape.asked:
        return True
    recorded = At(sizes_of(subject.recipe))
    return any(
        (heard := asked.answer_if_known(recorded)) is None
        or asked.answer_if_known(At(sizes)) != heard
        for asked in escape.asked
        for sizes in broken
    )


def ruled_out(subject: Subject, case: Case) -> Move | None:
    """Return a move that excludes a case where a question has another answer than recorded."""
    words = sizes_of(subject.recipe)
    sizes = sizes_of(subject.recipe, case.feeds)
    limits = subject.recipe.request.sizes.limits
    escapes = [each for each in subject.escapes.values() if each.asked]
    for side in Across(subject.trace.graph.work, words, limits).sides(escapes, []):
        for move in side.moves:
            if not move.holds(sizes):
                return move
    return None

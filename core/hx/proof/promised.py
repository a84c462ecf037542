"""What sizes a file is promised for, where it is wrong beyond what the model asked of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..inputs.grammar import Limits
from ..recording.capture import Capture
from ..sizes.asked import At
from .cases.across import Across, Move
from .cases.asking import case_of
from .cases.othersizes import Sizes, sizes_of
from .cases.work import Work
from .kept import Tried, kept
from .proof import Proof
from .verify import Case

if TYPE_CHECKING:
    from ..report import Escape

SEVERAL = 4  # sizes that are told


def narrow(captured: Capture, proof: Proof, tried: Tried) -> None:
    """A file that is wrong only beyond what the model asked of its sizes is promised up to there.

    Not where next to nothing would be left: from half to twice the sizes that were given it has to
    be right, or the export has failed. Nor unseen: `tried` says how further cases come out.
    """
    failed = [check for check in proof.cases if not check.ok]
    wrong = [check for check in failed if check.name in captured.beyond]
    given = any(check.name in captured.prepared.given for check in failed)
    if proof.checker or proof.problem or given or not wrong:
        return
    prepared, promised = captured.prepared, dict(captured.prepared.dynamic.limits)
    # One whose rounds become a loop was recorded at larger sizes than were given.
    given_sizes = sizes_of(prepared, prepared.given.get("given") if prepared.rolls else None)
    for check in wrong:
        _, move = captured.beyond[check.name]
        if not move.limits:
            return
        for word, limit in move.limits.items():
            promised[word] = promised.get(word, Limits()).and_also(limit)
    words = {word: None for check in wrong for word in captured.beyond[check.name][1].limits}
    if any(_next_to_nothing(promised[word], given_sizes[word]) for word in words):
        return
    notes: list[str] = []
    for word in words:
        asked = promised[word].written(word)
        promised[word], found = kept(captured, word, promised[word], given_sizes, tried)
        proof.cases += found
        failed += found
        if found:
            told = ", ".join(check.name for check in found[:SEVERAL])
            more = ", and more" if len(found) > SEVERAL else ""
            notes.append(f"within {asked} it was wrong as well, at {told}{more}")
        if _next_to_nothing(promised[word], given_sizes[word]):
            return
    # What else is wrong has to lie outside of these limits as well: size 1 is always tried.
    sizes = {case.name: sizes_of(captured.prepared, case.feeds) for case in captured.cases}
    broken = [
        [promised[w].written(w) for w, n in sizes[check.name].items()
         if w in promised and not promised[w].hold(n)]
        for check in failed
    ]  # fmt: skip
    if not all(broken):
        return
    for check, limits_of_it in zip(failed, broken):
        check.outside = ", ".join(limits_of_it)
    known: set[tuple[str, str]] = set()
    for check in wrong:
        escape, move = captured.beyond[check.name]
        limits = {word: promised[word] for word in move.limits}
        check.outside = ", ".join(limit.written(word) for word, limit in limits.items())
        captured.promised.update(limits)
        escape.beyond = escape.beyond.replace(f"tried at {check.name}", f"wrong at {check.name}")
        asked = _why(escape)
        if (check.outside, asked) not in known:  # else it was told of the nearest sizes
            captured.notes.append(
                f"the file is right for {check.outside} only: at {check.name} {asked}"
            )
        known.add((check.outside, asked))
    captured.notes += notes


def _why(escape: Escape) -> str:
    if escape.kind == "lost":
        return f"it is wrong, {escape.detail}"
    baked = escape.kind == "baked"
    what = "what is baked in is another number" if baked else "the model goes another way"
    return f"{what}, at {escape.where} ({escape.detail})"


def keep_to_what_ran(captured: Capture, proof: Proof) -> None:
    """A size is promised as it was recorded, where the model has taken no other one.

    Whatever the graph has for it may be a number of the recording. Not so of a model that runs at no
    size by itself, as it does here: PyTorch has operators that want to be traced.
    """
    prepared, limits = captured.prepared, dict(captured.prepared.dynamic.limits)
    ran = [sizes_of(prepared, case.feeds) for case in captured.cases]
    stuck = {
        word: (n, captured.promised.get(word, limits.get(word, Limits())))
        for word, n in sizes_of(prepared).items()
        if all(sizes[word] == n for sizes in ran)
    }
    stuck = {word: (n, limit) for word, (n, limit) in stuck.items() if limit.low != limit.high}
    if not proof.ok or not stuck or not case_of(captured, "recorded", dict(prepared.tensors))[0]:
        return
    for word, (n, limit) in stuck.items():
        captured.promised[word] = limit.and_also(Limits(n, n))
        why = next((note for note in captured.notes if f"{word}=" in note), "")
        captured.notes.append(
            f"the file is right for {word}={n} only, as far as anybody knows: no other size of "
            f"{word} could be tried" + (f" ({why})" if why else "")
        )


def may_be_ruled_out(captured: Capture, proof: Proof, case: Case) -> bool:
    """Whether its sizes are beyond what the model asked, at sizes where the file is wrong."""
    sizes, beyond = sizes_of(captured.prepared, case.feeds), captured.beyond
    wrong = [beyond[c.name][1] for c in proof.cases if not c.ok and c.name in beyond]
    return any(not move.holds(sizes) for move in wrong)


def _next_to_nothing(limit: Limits, n: int) -> bool:
    return limit.low > max(n // 2, 1) or (limit.high is not None and limit.high < 2 * n)


def may_matter(captured: Capture, escape: Escape, broken: Iterable[Sizes]) -> bool:
    """Whether it may be at fault at some of these sizes: a branch on sizes that goes the same way at
    all of them is not."""
    if escape.kind != "branch" or not escape.asked:
        return True
    recorded = At(sizes_of(captured.prepared))
    return any(
        (heard := asked.heard(recorded)) is None or asked.heard(At(sizes)) != heard
        for asked in escape.asked
        for sizes in broken
    )


def ruled_out(captured: Capture, case: Case) -> Move | None:
    """What leaves out a case where a question of the model has another answer than recorded."""
    recording, words = captured.recording, sizes_of(captured.prepared)
    sizes = sizes_of(captured.prepared, case.feeds)
    limits = {word: captured.prepared.dynamic.limits.get(word, Limits()) for word in words}
    escapes = [each for each in recording.escapes.values() if each.asked]
    for side in Across(Work(recording.builder.nodes), words, limits).sides(escapes, []):
        for move in side.moves:
            if not move.holds(sizes):
                return move
    return None

"""The other sizes that an export is proved at, and what a recording says of them."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Mapping

import torch

from ..inputs.grammar import Limits
from ..recording.capture import Capture
from ..recording.prepared import Prepared
from ..sizes import dynamic
from .across import Across, tell
from .asking import case_of
from .proof import Proof
from .variations import end_at, ending
from .verify import Case, resized

Sizes = dict[str, int]


def sizes_of(prepared: Prepared, tensors: Mapping[str, torch.Tensor] | None = None) -> Sizes:
    """The size of each dynamic name, in the recording or in other inputs."""
    tensors = prepared.tensors if tensors is None else tensors
    return {
        word: tensors[name].shape[axis]
        for name, axes in prepared.dynamic.items()
        for axis, word in axes.items()
        if not dynamic.is_sum(word)
    }


def elsewhere(prepared: Prepared, proof: Proof) -> Prepared | None:
    """The same call at other sizes, where a recording was right at its own and wrong at others.

    A model that has run before may have kept what it computed then for these sizes: a grid, a mask.
    At sizes that are new to it, it computes that again, where the graph sees it.
    """
    words, limits = sizes_of(prepared), prepared.dynamic.limits
    if not words or prepared.slim is not None or prepared.given is not None:
        return None
    if not proof.cases or not proof.cases[0].ok or proof.ok:
        return None
    more = larger(larger(words, limits), limits)
    if not all(limits.get(word, Limits()).hold(n) for word, n in more.items()):
        return None
    return dataclasses.replace(prepared, tensors=at(prepared, more), given=prepared.tensors)


def larger(words: Sizes, limits: Mapping[str, Limits]) -> Sizes:
    """All of them larger, and those that were alike no longer so."""
    steps = {word: limits.get(word, Limits()).step for word in words}
    return {w: n + steps[w] * (1 + i % 2) for i, (w, n) in enumerate(words.items())}


def at(prepared: Prepared, sizes: Sizes) -> dict[str, torch.Tensor]:
    """The recorded inputs at other sizes, with other values."""
    ends: dict[int, int] = {}  # recorded sizes, and what they are now: the smallest where they met
    for word, n in sizes_of(prepared).items():
        ends[n] = min(ends.get(n, sizes[word]), sizes[word])
    made = {}
    for key, tensor in prepared.tensors.items():
        axes = prepared.dynamic.get(key, {})
        seed = zlib.crc32(key.encode())  # each its own: what is alike hides what is exchanged
        new = resized(tensor, {a: dynamic.total(w, sizes) for a, w in axes.items()}, seed)
        made[key] = ending(new, tensor, ends)
    return made


def at_others(captured: Capture) -> list[Case]:
    """Two other sizes of every dynamic name: a larger one, and 1 or the smallest that it may have.

    All are larger together. A model that refuses that (a multiple of 32 is wanted, a table of
    positions ends) is asked for other sizes of each name alone; what it refuses is noted.
    """
    words = sizes_of(captured.prepared)
    if not words:
        return []
    given = captured.prepared.dynamic.limits
    limits = {word: given.get(word, Limits()) for word in words}
    for word in _of_ends(captured.prepared, words):
        limits[word] = limits[word].and_also(Limits(2))
    more = {w: n if limits[w].hold(n) else words[w] for w, n in larger(words, limits).items()}
    captured.notes += [
        f"{limit.told(word)}: no other size was tried" for word, limit in given.items()
    ]
    cases, refused = case_of(captured, _told(more), at(captured.prepared, more))
    if refused:
        for word, n in words.items():
            sizes = dict.fromkeys((more[word], 2 * n, n // 2, n - limits[word].step))
            others = [s for s in sizes if s > 1 and limits[word].hold(s)]
            cases += _first(captured, words, word, others)
    for word, n in words.items():
        others = [limits[word].least, n // 2, 3 * n] if n != 1 else [more[word] + 1, 4]
        others = [s for s in others if s and s != n and limits[word].hold(s)]
        cases += _first(captured, words, word, others)
    cases += _beyond(captured, words, limits, cases)
    return list({case.name: case for case in cases}.values())


def _of_ends(prepared: Prepared, words: Sizes) -> set[str]:
    """The names of how many ends of parts there are: with the beginning of the first, two or more."""
    return {
        word
        for key, axes in prepared.dynamic.items()
        for axis, word in axes.items()
        if word in words and axis == prepared.tensors[key].dim() - 1
        if end_at(prepared.tensors[key], words.values())
    }


def _first(captured: Capture, words: Sizes, word: str, sizes: list[int]) -> list[Case]:
    """The first of these sizes of one name that the model takes."""
    notes: list[str] = []
    case: list[Case] = []
    for size in sizes:
        case, refused = case_of(
            captured, _told({word: size}), at(captured.prepared, {**words, word: size})
        )
        if case:
            break
        notes += refused
    captured.notes += [] if case else notes[:1]
    return case


def _told(sizes: dict[str, int]) -> str:
    return ", ".join(f"{w}={n}" for w, n in sizes.items())


def _beyond(
    captured: Capture, words: Sizes, limits: Mapping[str, Limits], cases: list[Case]
) -> list[Case]:
    """The other side of what the model asked of sizes, where no other size has been there."""
    recording, found = captured.recording, list[Case]()
    escapes = [each for each in recording.escapes.values() if each.asked]
    if not escapes:
        return []
    across = Across(recording.builder.nodes, words, limits)
    seen = [sizes_of(captured.prepared, case.feeds) for case in cases]
    for side in across.sides(escapes, seen):
        if across.shown(side, [sizes_of(captured.prepared, case.feeds) for case in found]):
            continue
        said = []
        for move in side.moves:
            name = across.told(move.sizes)
            why = across.refused(move, len(found))
            if why:
                said.append(f"not tried at {name}: {why}")
                continue
            case, refused = case_of(captured, name, at(captured.prepared, move.sizes))
            said += refused
            if case:
                said = [f"tried at {name}"]
                captured.beyond[name] = side.escape, move
                found += case
                break
        tell(side.escape, said[0])
    return found


def ruled_out(captured: Capture, case: Case) -> str:
    """What leaves out a case where a question of the model has another answer than recorded."""
    recording, words = captured.recording, sizes_of(captured.prepared)
    sizes = sizes_of(captured.prepared, case.feeds)
    limits = {word: captured.prepared.dynamic.limits.get(word, Limits()) for word in words}
    escapes = [each for each in recording.escapes.values() if each.asked]
    for side in Across(recording.builder.nodes, words, limits).sides(escapes, []):
        for move in side.moves:
            if not all(limit.hold(sizes[word]) for word, limit in move.limits.items()):
                return move.within
    return ""


def steps_between(captured: Capture, case: Case) -> Sizes:
    """A number for each name whose recorded size is a multiple of it, and that of the case is not.

    A model that halves its sizes and doubles them again often is another one there. Of several, it
    is the one that the model asks about (`h % 4 != 0`), or else the most usual one.
    """
    recorded, found = sizes_of(captured.prepared), {}
    escapes = captured.recording.escapes.values()
    asked = [int(s) for each in escapes for s in re.findall(r"%(\d+)\)", each.detail)]
    for word, size in sizes_of(captured.prepared, case.feeds).items():
        n = recorded[word]
        steps = [s for s in (*asked, 8, 16, 32, 64, 4, 2) if s and n % s == 0 and size % s]
        if steps and n > 2:  # of a batch of two, nobody says that it is even
            found[word] = steps[0]
    return found


def narrow(captured: Capture, proof: Proof) -> None:
    """A file that is wrong only beyond what the model asked of its sizes is promised up to there.

    Not where next to nothing would be left: from half to twice the recorded sizes it has to be
    right, or the export has failed.
    """
    failed = [check for check in proof.cases if not check.ok]
    wrong = [check for check in failed if check.name in captured.beyond]
    if proof.checker or proof.problem or not wrong:
        return
    recorded, promised = sizes_of(captured.prepared), dict(captured.prepared.dynamic.limits)
    for check in wrong:
        _, move = captured.beyond[check.name]
        if not move.limits:
            return
        for word, limit in move.limits.items():
            promised[word] = promised.get(word, Limits()).and_also(limit)
    for word in {word for check in wrong for word in captured.beyond[check.name][1].limits}:
        limit, n = promised[word], recorded[word]
        if limit.low > max(n // 2, 1) or (limit.high is not None and limit.high < 2 * n):
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
    for check in wrong:
        escape, move = captured.beyond[check.name]
        limits = {word: promised[word] for word in move.limits}
        check.outside = ", ".join(limit.written(word) for word, limit in limits.items())
        captured.promised.update(limits)
        escape.beyond = escape.beyond.replace(f"tried at {check.name}", f"wrong at {check.name}")
        captured.notes.append(
            f"the file is right for {check.outside} only: at {check.name} the model goes another "
            f"way, at {escape.where} ({escape.detail})"
        )

"""The other sizes that an export is proved at, and what a recording says of them."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Collection, Iterable, Mapping

import torch

from ...inputs.grammar import Limits
from ...recording.capture import Capture
from ...recording.prepared import Prepared
from ...sizes import dynamic
from ..proof import Proof
from ..verify import Case
from .asking import case_of
from .variations import begins_at_0, end_at, ending, making_up, repeated, resized, whole_of

Sizes = dict[str, int]
APART = (1, 2, 5, 11)  # so much larger are sizes that a model is recorded at once more
TWICE = 2  # as large as it has to be, to be sure what goes round: of more, the proof takes too long
FAILED = 8  # inputs of the given sizes on which another graph was wrong, that are tried again


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
    At sizes that are new to it, it computes that again, where the graph sees it. And what is right
    for even sizes alone (nothing has to be padded) may be right for all where they are odd, as they
    are behind several strides, too.
    """
    words = sizes_of(prepared)
    if not words or prepared.slim is not None or prepared.given:
        return None
    if not proof.cases or not proof.cases[0].ok or proof.ok:
        return None
    if any(output.other_rank for case in proof.cases for output in case.outputs):
        return None  # wherever it is recorded, the graph has one of the two
    more = _odd(prepared, words)
    if more is None:
        return None
    here = [each for each in prepared.failed.items() if sizes_of(prepared, each[1]) == words]
    given = {"given": prepared.tensors, **dict(here[:FAILED])}
    return dataclasses.replace(prepared, tensors=at(prepared, more), given=given)


def rounds_elsewhere(prepared: Prepared) -> Prepared | None:
    """The same rounds of a loop, with other sizes of all that does not say how many there are: what
    the model has kept of those that were given, it computes again."""
    given = prepared.given.get("given", prepared.tensors)
    words, before = sizes_of(prepared), sizes_of(prepared, given)
    kept = {word: n for word, n in words.items() if n == before[word]}
    more = _odd(prepared, kept) if len(words) > 1 else None
    if not more:
        return None
    tensors = at(prepared, {**words, **more})
    return dataclasses.replace(prepared, tensors=tensors, given={"given": given}, failed={})


def _odd(prepared: Prepared, words: Sizes) -> Sizes | None:
    """Other sizes of these names, no two alike, that have not been tried; None if there are none."""
    limits = prepared.dynamic.limits
    known = [words, larger(words, limits)]
    known += [sizes_of(prepared, tensors) for tensors in prepared.failed.values()]
    more: Sizes = {}
    for word, n in words.items():
        taken = {*more.values(), *(sizes[word] for sizes in known)}
        more[word] = _odd_for_long(n, limits.get(word, Limits()).step, taken)
    held = all(limits.get(word, Limits()).hold(n) for word, n in more.items())
    return more if held else None


def _odd_for_long(n: int, step: int, taken: Collection[int]) -> int:
    """A larger size that leaves something over, however often it is halved: 224, 225, 113, 57, 29."""
    halved = 1 << max(1, (n // step // 2).bit_length() - 1)
    found = (n // step // halved * halved + 1) * step
    while found <= n or found in taken:
        found += halved * step
    return found


def followed(prepared: Prepared, proof: Proof) -> Prepared | None:
    """The same call, to be recorded at other sizes as well, where a recording was right at its own
    and wrong at others: numbers of it may follow from sizes."""
    words, limits = sizes_of(prepared), prepared.dynamic.limits
    if not words or prepared.slim is not None or prepared.follows or proof.ok:
        return None
    if not proof.cases or not proof.cases[0].ok:
        return None
    if all(sizes == words for sizes in prepared.wrong_at):
        return None  # with other values it is wrong, and not at other sizes
    if any(output.other_rank for case in proof.cases for output in case.outputs):
        return None
    steps = {word: limits.get(word, Limits()).step for word in words}
    for word, n in words.items():
        if n >= 64 and n % 32 == 0 and 32 % steps[word] == 0:
            steps[word] = 32  # as odd as it is, behind as many strides
    several: list[Sizes] = []
    for turn in range(len(APART)):
        sizes = {}
        for place, (word, n) in enumerate(words.items()):
            more = APART[(turn + place) % len(APART)] * steps[word]
            limit = limits.get(word, Limits())
            sizes[word] = n + more if limit.hold(n + more) else n - more
            if sizes[word] < 1 or not limit.hold(sizes[word]):
                return None
        several.append(sizes)
    several.append({word: 2 * limits.get(word, Limits()).step for word in words})
    return dataclasses.replace(prepared, follows=tuple(several))


def larger_by(prepared: Prepared, times: int) -> Prepared | None:
    """The same call with so many times as much of all that may be of another size."""
    words, limits = sizes_of(prepared), prepared.dynamic.limits
    more = {word: n * times for word, n in words.items()}
    held = all(limits.get(word, Limits()).hold(n) for word, n in more.items())
    if not words or not held or prepared.slim is not None or prepared.given:
        return None
    given = {"given": prepared.tensors}
    return dataclasses.replace(prepared, tensors=at(prepared, more), given=given)


def in_rounds(captured: Capture) -> Prepared | None:
    """The same call, recorded with enough rounds to see what goes round, where sizes say how many."""
    from ...recording.rolled import Before, asked_in_rounds, at_enough_rounds, counts, rounds_of
    from ...recording.rolled.lengths import LEAST
    from .across import Across, Move
    from .counted import counting, room_for_members, with_more_rounds
    from .work import Work

    prepared, recording = captured.prepared, captured.recording
    numbers = tuple(counting(captured))
    asked = [*rounds_of(recording.escapes.values())]
    words = sizes_of(prepared)
    if not asked or prepared.slim is not None or prepared.given:
        return None
    nodes, limits = recording.builder.nodes, prepared.dynamic.limits
    begin = dict(words)
    if asked_in_rounds(captured):  # it is recorded once for each round, and more
        named = {word for each in asked for word in each.names()}
        begin = {word: min(n, LEAST) if word in named else n for word, n in words.items()}
    # A limit, maybe, leaves no number that is not there already.
    least, nearly, wholly = (
        at_enough_rounds(asked, begin, limits, fixed) for fixed in ((), *counts(nodes))
    )
    sizes = _nearest(nearly, wholly) or least
    if sizes is None:
        return None
    sizes = room_for_members(captured, _with_room(prepared, words, sizes))
    more = with_more_rounds(captured, prepared.tensors if sizes == words else at(prepared, sizes))
    if sizes == words and more is None:
        return dataclasses.replace(prepared, rolls=Before([]), counting=numbers)
    if Across(Work(nodes), words, limits).refused(Move(sizes), 0):
        return None  # it would take many times the work
    given, before = {"given": prepared.tensors}, Before(nodes)
    tensors = _taken(captured, words, sizes) if more is None else more
    return dataclasses.replace(
        prepared, tensors=tensors, given=given, rolls=before, counting=numbers
    )


def _taken(captured: Capture, words: Sizes, sizes: Sizes) -> dict[str, torch.Tensor]:
    """Inputs of these sizes, as the model takes them; where it refuses them, with as much more of all
    the others: one may have to be larger than another."""
    prepared, limits = captured.prepared, captured.prepared.dynamic.limits
    tensors, most = at(prepared, sizes), max(n - words[word] for word, n in sizes.items())
    more = {word: n if n != words[word] else n + most for word, n in sizes.items()}
    held = all(limits.get(word, Limits()).hold(n) for word, n in more.items())
    found = case_of(captured, told(sizes), tensors)[0]
    if not found and more != sizes and held:
        found = case_of(captured, told(more), at(prepared, more))[0]
    return dict(found[0].feeds) if found else tensors


def _nearest(fewer: Sizes | None, more: Sizes | None) -> Sizes | None:
    """The second, unless that is far larger than the first."""
    if fewer is None or more is None:
        return fewer or more
    return fewer if any(more[word] > TWICE * n for word, n in fewer.items()) else more


def larger(words: Sizes, limits: Mapping[str, Limits]) -> Sizes:
    """All of them larger, and those that were alike no longer so.

    Large ones by an eighth more, so that what is left of them behind a few strides is larger, too:
    by a multiple of 8, which leaves them as odd as one more makes them.
    """
    steps = {word: limits.get(word, Limits()).step for word in words}
    return {
        w: n + steps[w] * (1 + i % 2 + n // steps[w] // 64 * 8)
        for i, (w, n) in enumerate(words.items())
    }


def at(prepared: Prepared, sizes: Sizes, counted: bool = True) -> dict[str, torch.Tensor]:
    """The recorded inputs at other sizes, with other values; positions are `counted` on."""
    ends: dict[int, int] = {}  # recorded sizes, and what they are now: the smallest where they met
    for word, n in sizes_of(prepared).items():
        ends[n] = min(ends.get(n, sizes[word]), sizes[word])
    made = {}
    for key, tensor in prepared.tensors.items():
        axes = prepared.dynamic.get(key, {})
        seed = zlib.crc32(key.encode())  # each its own: what is alike hides what is exchanged
        wanted = {a: dynamic.total(w, sizes) for a, w in axes.items()}
        new = resized(tensor, wanted, seed, counted=counted)
        made[key] = making_up(ending(new, tensor, ends), tensor, ends)
    return made


def repeated_at(prepared: Prepared, sizes: Sizes) -> dict[str, torch.Tensor]:
    """The recorded inputs at other sizes, with the same values."""
    made = {}
    for key, tensor in prepared.tensors.items():
        axes = prepared.dynamic.get(key, {})
        made[key] = repeated(tensor, {a: dynamic.total(w, sizes) for a, w in axes.items()})
    return made


def case_at(captured: Capture, sizes: Sizes, name: str) -> tuple[list[Case], list[str]]:
    """The model's own answer at other sizes, or a note that it refuses them.

    What looked like positions may be tokens or classes, of which there are no more: before it is
    said that a model refuses a size, these are repeated.
    """
    tensors = at(captured.prepared, sizes)
    case, refused = case_of(captured, name, tensors)
    if refused:
        others = at(captured.prepared, sizes, counted=False)
        if any(_differ(tensors[key], other) for key, other in others.items()):
            case, again = case_of(captured, name, others)
            refused = refused if again else []
    return case, refused


def _differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    return not a.is_complex() and bool((a.double() != b.double()).any())


def at_others(captured: Capture) -> list[Case]:
    """Two other sizes of every dynamic name: a larger one, and 1 or the smallest that it may have.

    All are larger together. A model that refuses that (a multiple of 32 is wanted, a table of
    positions ends) is asked for other sizes of each name alone; what it refuses is noted.
    """
    words = sizes_of(captured.prepared)
    if not words:
        return []
    given, limits = captured.prepared.dynamic.limits, limits_of(captured.prepared)
    more = {w: n if limits[w].hold(n) else words[w] for w, n in larger(words, limits).items()}
    captured.notes += [
        f"{limit.told(word)}: no other size was tried" for word, limit in given.items()
    ]
    cases, refused = case_at(captured, more, told(more))
    if refused:
        for word, n in words.items():
            sizes = dict.fromkeys((more[word], 2 * n, n // 2, n - limits[word].step))
            others = [s for s in sizes if s > 1 and limits[word].hold(s)]
            cases += _first(captured, words, word, others)
    if any(e.kind == "range" and not e.carried for e in captured.recording.escapes.values()):
        for word in words:  # an even number of rounds more may leave all as it was
            if (more[word] - words[word]) % 2 == 0 and limits[word].step == 1:
                near = [n for n in (words[word] + 1, words[word] - 1) if limits[word].hold(n)]
                cases += _first(captured, words, word, near)
    lost = any(other_rank(captured, case) for case in cases)
    for word, n in words.items():
        others = [limits[word].least, n // 2, 3 * n] if n != 1 else [more[word] + 1, 4]
        others = [s for s in others if s and s != n and limits[word].hold(s)]
        if lost:  # no graph is right, and with each axis more there is far more to compute
            others = [s for s in others if s < n]
        cases += _first(captured, words, word, others)
    ran = [sizes_of(captured.prepared, case.feeds) for case in cases]
    if any(all(sizes[word] == n for sizes in ran) for word, n in words.items()):
        double = {word: 2 * n if limits[word].hold(2 * n) else n for word, n in words.items()}
        cases += case_of(captured, told(double), twice(captured.prepared, double))[0]
    return list({case.name: case for case in cases}.values())


def twice(prepared: Prepared, sizes: Sizes) -> dict[str, torch.Tensor]:
    """Twice the recorded inputs, one behind the other, for a model that refuses what is drawn.

    What whole numbers say of the rest, how long its parts are or where they begin, they say once
    more; an order goes on behind the last place. Other numbers are other ones.
    """
    made = at(prepared, sizes)
    for key, tensor in prepared.tensors.items():
        if tensor.is_floating_point() or tensor.is_complex():
            continue
        is_order = tensor.dim() == 1 and tensor.equal(tensor.argsort().argsort())
        for axis in prepared.dynamic.get(key, {}):
            more = tensor + len(tensor) if is_order else tensor
            tensor = torch.cat((tensor, more), axis)
            tensor = tensor.narrow(axis, 0, min(tensor.shape[axis], made[key].shape[axis]))
        if tensor.shape == made[key].shape:
            made[key] = tensor
    return made


def other_rank(captured: Capture, case: Case) -> bool:
    """Whether a result has more axes than recorded, or fewer."""
    pairs = zip(captured.real, case.expected)
    return any(torch.as_tensor(a).dim() != torch.as_tensor(b).dim() for a, b in pairs)


def limits_of(prepared: Prepared) -> dict[str, Limits]:
    """What each dynamic name may be, of those that were said and those that follow."""
    words, given = sizes_of(prepared), prepared.dynamic.limits
    limits = {word: given.get(word, Limits()) for word in words}
    for word in _of_ends(prepared, words):
        limits[word] = limits[word].and_also(Limits(2))
    return limits


def _of_ends(prepared: Prepared, words: Sizes) -> set[str]:
    """The names of how many ends of parts there are: with the beginning of the first, two or more."""
    return {
        word
        for key, axes in prepared.dynamic.items()
        for axis, word in axes.items()
        if word in words and axis == prepared.tensors[key].dim() - 1
        if begins_at_0(prepared.tensors[key]) and end_at(prepared.tensors[key], words.values())
    }


def _with_room(prepared: Prepared, words: Sizes, sizes: Sizes) -> Sizes:
    """With as much more of a whole as there are more parts of it."""
    found = dict(sizes)
    for key, axes in prepared.dynamic.items():
        tensor = prepared.tensors[key]
        grown = [w for w in axes.values() if w in words and sizes[w] > words[w] > 0]
        whole = whole_of(tensor, words.values())
        if not grown or not whole:
            continue
        times = max(-(-sizes[word] // words[word]) for word in grown)
        for word, n in words.items():
            if n == whole and found[word] == n:
                found[word] = times * n
    limits = prepared.dynamic.limits
    return found if all(limits.get(w, Limits()).hold(n) for w, n in found.items()) else sizes


def _first(captured: Capture, words: Sizes, word: str, sizes: list[int]) -> list[Case]:
    """The first of these sizes of one name that the model takes."""
    notes: list[str] = []
    case: list[Case] = []
    for size in sizes:
        case, refused = case_at(captured, {**words, word: size}, told({word: size}))
        if case:
            break
        notes += refused
    captured.notes += [] if case else notes[:1]
    return case


def told(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{w}={n}" for w, n in sizes.items())


def steps_between(captured: Capture, case: Case, right: Iterable[Case]) -> Sizes:
    """A number for each name whose recorded size is a multiple of it, and that of the case is not.

    A model that halves its sizes and doubles them again often is another one there. Of several, it
    is the one that the model asks about (`h % 4 != 0`), or else the most usual one. What was right
    where the name alone had another size is not to be blamed on it.
    """
    recorded, found = sizes_of(captured.prepared), {}
    fine = [sizes_of(captured.prepared, each.feeds) for each in right]
    escapes = captured.recording.escapes.values()
    asked = [int(s) for each in escapes for s in re.findall(r"%(\d+)\)", each.detail)]
    for word, size in sizes_of(captured.prepared, case.feeds).items():
        n = recorded[word]
        steps = [s for s in (*asked, 8, 16, 32, 64, 4, 2) if s and n % s == 0 and size % s]
        alone = [each[word] for each in fine if each == {**recorded, word: each[word]}]
        blamed = steps and not any(size % steps[0] for size in alone)
        if blamed and n > 2:  # of a batch of two, nobody says that it is even
            found[word] = steps[0]
    return found

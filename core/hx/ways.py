"""The ways to record a model, one after the other, until one of them gives a right graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from .errors import (
    Asks,
    Differentiates,
    EscapeError,
    ExportError,
    HxError,
    Leaves,
    MissingConverters,
    PackError,
    Rounds,
    Unsupported,
    UsageError,
    VerificationError,
)
from .packs.registry import Registry
from .proof.cases import othersizes, otherways
from .recording import heard
from .recording.choices import Choices
from .recording.prepared import Prepared
from .recording.questions import FEW, Until
from .report import Report, scaffold
from .world.respelling import reaches_more

TIMES = 6  # as much of everything, where there were too few rounds


def leaves_more(report: Report, asked: Prepared, failed: list[Exception]) -> bool:
    """Whether something left the graph that may stay in it if the model hears something else.

    Libraries that hear that they are traced keep a number in a tensor, which PyTorch's tracer
    follows into a shape; else they ask for the number, which is followed here. What another answer
    leads to is taken if nothing leaves then: if not, it is the first way again.
    """
    # A number that was asked for by item() is followed, until something else is told of it.
    left = [e.kind for e in report.escapes if not e.carried and e.kind != "item"]
    if not failed:
        return "index" in left and heard.TRACING in asked.asked
    return isinstance(failed[0], Leaves) and asked.yes != heard.FIRST and bool(left)


def foremost(failed: list[Exception]) -> Exception:
    """What to tell of the ways that failed: the first, and what the last one would need for it."""
    first, last = failed[0], failed[-1]
    if not isinstance(first, Differentiates) or last is first:
        return first
    if not isinstance(last, MissingConverters):
        if isinstance(last, HxError) and not isinstance(last, Differentiates):
            first.why = f"what PyTorch traces of it fails, too: {last.what}"
            first.why += f"; {last.why}" if last.why else ""
        return first
    names = [each.target for each in last.missing]
    have = "has" if len(names) == 1 else "have"
    write = scaffold(last.missing)
    told = Differentiates(
        first.what,
        where=first.where,
        why=f"its derivative needs {', '.join(names)}, which {have} no converter",
        hint=f"write {'one' if len(names) == 1 else 'them'}: {write}" if write else "",
    )
    told.report = last.report
    return told


def ways(
    prepared: Prepared, failed: list[Exception], registry: Registry, opset: int
) -> Iterator[Prepared]:
    """How to record, one after the other, as long as what came before has `failed`."""
    for yes in heard.ways(prepared.asked):
        prepared.yes = yes
        before = len(failed)
        yield from _with_both_ways(prepared, failed)
        while _may_reach_more(prepared, failed):
            del failed[before:]
            yield from _with_both_ways(prepared, failed)
    if isinstance(failed[0], Leaves):
        prepared.yes = heard.FIRST
        before = len(failed)
        yield from _with_both_ways(prepared, failed)
        failed[:] = failed[before : before + 1]  # what it really led to
    if isinstance(failed[0], Differentiates):
        from .recording.derivatives import traced

        other = traced(prepared, Choices(registry, opset), failed[0])
        if other is not None:
            other.yes = heard.FIRST
            yield other
    if isinstance(failed[0], VerificationError):
        other = othersizes.elsewhere(prepared, failed[0].proof)
        if other is not None:
            for yes in heard.ways(prepared.asked):
                there = dataclasses.replace(other, yes=yes)
                yield there
                yield from _led(there, failed)
    if isinstance(failed[0], (VerificationError, EscapeError)):
        other = otherways.ways(prepared, failed[0])
        if other is not None:
            other.yes = heard.FIRST
            yield other


def _with_both_ways(prepared: Prepared, failed: list[Exception]) -> Iterator[Prepared]:
    """A model that asks what is in its tensors is recorded with either answer, one that goes round as
    often as sizes say as a loop, and each, if that makes no graph, as it went."""
    before = len(failed)
    yield prepared
    while _may_reach_more(prepared, failed):
        del failed[before:]
        yield prepared
    first = failed[-1]
    yield from _padding(prepared, failed)
    other = None
    if isinstance(first, Asks):
        asks = first
        for until in asks.until:
            yield dataclasses.replace(prepared, until=until)
            if isinstance(failed[-1], Unsupported):
                yield dataclasses.replace(prepared, until=until, unfolded=True, counts=True)
            if not isinstance(failed[-1], HxError):
                yield from _until_true(prepared, until)
            if until.breaks:
                # What is left to do is nothing, maybe: then it is as right to go on as to stop.
                yield from _until_true(
                    dataclasses.replace(prepared, told=dict(until.breaks)), until
                )
        other = otherways.unasked(prepared) if asks.joined else None
    elif isinstance(first, Rounds):
        other = first.other
    if other is not None:
        yield other
        wrong = isinstance(failed[-1], VerificationError) and other.begun
        if other.rolls and (wrong or isinstance(failed[-1], Unsupported)):
            # Rounds in which the state still is a constant are unlike the others.
            for counts in (False, True):
                if isinstance(failed[-1], (VerificationError, Unsupported)):
                    other = dataclasses.replace(other, unfolded=True, counts=counts)
                    yield other
        if other.rolls and not other.one_of and otherways.asks_of_values(failed[-1]):
            # Of so many rounds it asks what it did not of fewer: whether a list has anything in it.
            alike = list(other.failed.values())[:FEW]
            other = dataclasses.replace(otherways.unasked(other), alike=alike)
            yield other
        if isinstance(first, Rounds) and first.numbered is not None:
            yield from _numbered(first.numbered, failed)
        joined = failed[-1]
        if isinstance(first, Rounds) and isinstance(joined, VerificationError):
            anew = othersizes.rounds_elsewhere(other)
            if anew is not None:
                yield anew
        yield from _padding(other, failed)
        yield from _following(other, failed)
        if other.one_of and other.rolls:
            yield dataclasses.replace(other, one_of=False, alike=[])
        elif other.one_of and other.failed and isinstance(joined, VerificationError):
            again = dataclasses.replace(prepared, failed=other.failed)
            led = otherways.ways(again, joined)  # now data are known that lead otherwise
            if led is not None:
                yield led
    if isinstance(failed[before], (Asks, Rounds)):
        apart = otherways.why_apart(failed[before:])
        del failed[before:]  # nobody has to know
        as_it_went = dataclasses.replace(prepared, apart=apart)
        yield as_it_went
        yield from _padding(as_it_went, failed)
        prepared = as_it_went
    yield from _following(prepared, failed)


def _numbered(prepared: Prepared, failed: list[Exception]) -> Iterator[Prepared]:
    """Rounds that differ by their number: the graph has it, and asks what the model asks of it."""
    before = len(failed)
    for unfolded in (False, True):
        if isinstance(failed[-1], (VerificationError, Unsupported)):
            yield dataclasses.replace(prepared, unfolded=unfolded)
    del failed[before:]  # what is told of these rounds is told of them without their numbers


def _may_reach_more(prepared: Prepared, failed: list[Exception]) -> bool:
    """Whether a way has met functions that keep sizes when it is recorded once more."""
    unlike = VerificationError, EscapeError, Unsupported, Asks, Rounds
    return isinstance(failed[-1], unlike) and reaches_more(prepared)


def _until_true(prepared: Prepared, until: Until) -> Iterator[Prepared]:
    """A model that takes one more from what is left until nothing is raises an error where it is to
    go on: it hears the truth, with so much that there are enough rounds."""
    if until.truly < 2:
        return  # what it is given does not say that it goes round
    truly = dataclasses.replace(prepared, until=dataclasses.replace(until, times=None))
    found = truly if until.truly >= FEW else othersizes.larger_by(truly, TIMES)
    if found is not None:
        yield found


def _padding(prepared: Prepared, failed: list[Exception]) -> Iterator[Prepared]:
    """A model that asks whether sizes leave something over, or are the same, hears that they do not
    fit; where it raises an error then, it hears the truth. What else it asks of sizes is recorded
    both ways."""
    if not isinstance(failed[-1], VerificationError) or prepared.yes != heard.FIRST:
        return
    other = otherways.padding(prepared, failed[-1])
    if other is None or other.pads is None:
        return
    yield other
    while not isinstance(failed[-1], HxError) and other.pads.gives_in():
        yield other
    yield from _led(other, failed)


def _following(prepared: Prepared, failed: list[Exception]) -> Iterator[Prepared]:
    """Where numbers of it follow from sizes out of sight, recordings at other sizes tell how."""
    if isinstance(failed[-1], VerificationError):
        followed = othersizes.followed(prepared, failed[-1].proof)
        if followed is None:
            return
        known = len(prepared.wrong_at)
        yield followed
        wrong = prepared.wrong_at[known:]
        if wrong and isinstance(failed[-1], VerificationError):  # where a formula has its end
            yield dataclasses.replace(followed, follows=(*followed.follows[:-1], wrong[0]))


def _led(prepared: Prepared, failed: list[Exception]) -> Iterator[Prepared]:
    """What was recorded in a way of its own is recorded both ways where it still is wrong."""
    if isinstance(failed[-1], VerificationError):
        led = otherways.ways(prepared, failed[-1])
        if led is not None:
            yield led


_NUMBERS = frozenset({"int", "float", "len", "index", "format", "range", "repeat"})


def carried(asked: Prepared, report: Report) -> None:
    """Where recordings at other sizes told what numbers follow from, sizes that became numbers are in
    the graph after all."""
    for escape in report.escapes if asked.follows else ():
        of_sizes = escape.asked and not any(each.of_values() for each in escape.asked)
        if escape.kind in _NUMBERS and of_sizes:
            escape.carried, escape.beyond = True, ""


def told(asked: Prepared, prepared: Prepared) -> list[str]:
    if asked.recorded is not None:
        return [
            "the model differentiates as it runs: what PyTorch's own trace of it calls is recorded"
        ]
    if asked.pads is not None:
        return [
            "recorded as if no size fitted where the model asks that: what is padded by nothing, or "
            "resized to the size that it has, is the same, so one way is right for all sizes"
        ]
    notes = [] if asked.yes == heard.FIRST else [heard.told(asked.yes, prepared.asked)]
    if asked.given and not asked.rolls and not asked.until:
        notes.append(
            "recorded at other sizes than were given: at those the model goes a way that is right "
            "for them alone, or keeps from an earlier run what it would have to compute"
        )
    return notes


def may_be_of_its_way(problem: Exception) -> bool:
    """Whether a model that hears something else may do without what failed."""
    if not isinstance(problem, HxError) or isinstance(problem, (UsageError, PackError)):
        return False
    return type(problem) is not ExportError  # a full disk, sys.exit()

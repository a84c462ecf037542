"""The other inputs that a model is recorded on, where it goes another way than it was recorded."""

from __future__ import annotations

import dataclasses

import torch

from ...errors import Asks, Baked, HxError, Rounds, VerificationError
from ...recording.both.rows import FEW, Line
from ...recording.capture import Capture
from ...recording.prepared import Prepared
from ...recording.questions import Pads, Until
from ...sizes.leftover import fits
from .across import tell
from .elsewhere import Elsewhere
from .turned import large, negative, opposite, positive, small, zeroed
from .variations import fresh

Inputs = dict[str, torch.Tensor]

# Kinds of escapes with which a model may go another way.
ASKING = {"bool", "branch", "item", "is_nonzero"}
MOST = 24  # inputs that it is recorded on
LARGE = 1 << 28  # bytes of weights of a model that is not run so often
TIMES = 64  # as many elements, of inputs that are recorded more than once
PADDED, PADDED_LITTLE = 8, 1024  # times as many nodes has one that always pads, and so many more


def may_be_joined(captured: Capture) -> bool:
    """Whether the model asks what is in its tensors, and not so often that nobody can follow it."""
    prepared = captured.prepared
    asked = [q for q in captured.recording.questions.each if q.of_values]
    return 0 < len(asked) <= FEW and prepared.slim is None


def asked_in_rounds(captured: Capture) -> set[Line]:
    """The lines on which the model asks what is in its tensors again and again."""
    from ...recording import rolled

    return rolled.asked_in_rounds(captured)


def until_ended(captured: Capture) -> list[Until]:
    """What the model may go round for, until the answer ends it."""
    from ...recording.rolled.until import untils

    return [] if captured.prepared.slim is not None else untils(captured)


def asked_again(captured: Capture, until: Until) -> bool:
    return len(captured.recording.questions.until_asked(until)) > 1


def unasked(prepared: Prepared) -> Prepared:
    """The same call, to be recorded with either answer to what it asks."""
    given = prepared.tensors
    some = (opposite, small, large)
    alike = [{name: way(tensor) for name, tensor in given.items()} for way in some]
    alike += [fresh(given, seed=21)]
    # Before zeros, which lead many ways, too, but where they do hide what is computed there.
    one_sided = [
        {name: way(tensor) for name, tensor in given.items()} for way in (positive, negative)
    ]
    alike += [*one_sided, *[*zeroed(given).values()][:1]]
    alike = _different(alike, [given])
    return dataclasses.replace(prepared, alike=alike, failed={}, one_of=True)


def numbered(prepared: Prepared) -> Prepared:
    """The same, with numbers of rounds that are asked for in the graph."""
    from ...recording.rolled import Before

    return dataclasses.replace(unasked(prepared), rolls=Before([]), numbered=True)


UNALIKE = (
    "the ways do not become one graph, which torch.where, or the branches in another order, may"
)
BESIDE = "beside what goes round it is not recorded with the other answer, which torch.where has"
IN_ROUNDS = (
    "what each round does with either answer does not become one If in a loop: a list that is longer "
    "on one side, a plain number that counts there, a break, or a model that runs too long to be recorded "
    "for each round, it may be; torch.where has both answers"
)


def why_apart(failed: list[Exception]) -> str:
    """What to tell of a model that asks what is in its tensors, and that no graph has all ways of."""
    baked = next((each for each in failed if isinstance(each, Baked)), None)
    if baked is not None:
        return (
            f"a number that is read at {baked.where} would be plain on the other, and no data are "
            "known that lead there"
        )
    if isinstance(failed[0], Asks) and len(failed[0].again) > 1:
        each = [f"{file}:{line}" for file, line in sorted(failed[0].again)]
        more = f" and {len(each) - 3} more" if len(each) > 3 else ""
        lines = (", " if more else " and ").join(each[:3]) + more
        return (
            f"{lines} are asked again and again, and a loop that data end is one in the graph where "
            "its rounds ask nothing else: write an `if` within them with torch.where, and of two such "
            "loops one as rounds of a fixed number, where torch.where keeps what has ended"
        )
    last = failed[-1]
    proof = last.proof if isinstance(last, VerificationError) else None
    wrong = [case.name for case in proof.cases if not case.ok] if proof is not None else []
    if wrong:
        return f"with all ways in it, it is wrong on {' and '.join(wrong[:2])} inputs"
    if isinstance(failed[0], Rounds) and failed[0].asked:
        return IN_ROUNDS
    return UNALIKE if isinstance(failed[0], Asks) else ""


def tell_apart(captured: Capture, why: str) -> None:
    """Of what the model asks, that no graph has both answers: so that nobody takes it for a branch
    that hx has not seen."""
    for escape in captured.recording.escapes.values():
        told = escape.carried or escape.asked or escape.beyond
        if escape.kind == "bool" and not told:
            escape.beyond = f"the file goes this way whatever is in it: {why}"


def tell_unled(captured: Capture) -> None:
    """Of the ways that were only heard, that no data are known that lead there."""
    recorded = (each for each in (captured, *captured.others) if not each.prepared.forced)
    led = {answer for each in recorded for answer in _of_values(each)}
    found: dict[str, None] = {}
    for heard in captured.heard:
        alone = _of_values(heard) - led
        for (file, line), yes in sorted(alone):
            found[f"{'yes' if yes else 'no'} at {file}:{line}"] = None
        for key, escape in heard.recording.escapes.items():
            known = captured.recording.escapes[key]
            own = known is escape or not known.asked.keys() >= escape.asked.keys()
            if alone and escape.asked and own:
                tell(known, "not tried where no data are known that lead there")
    if found:
        captured.notes.append(
            "no data are known on which the model hears "
            f"{', '.join(list(found)[:3])}: what it does then was recorded, and is not proved"
        )


def _of_values(captured: Capture) -> set[tuple[Line, bool]]:
    """What the model hears of what is in tensors."""
    return {(q.line, q.yes) for q in captured.recording.questions.each if q.of_values}


def asks_of_values(failed: Exception) -> bool:
    """Whether a file is wrong of which a branch that values decide is taken for good."""
    if not isinstance(failed, VerificationError) or failed.report is None:
        return False
    return any(
        escape.kind == "branch" and any(asked.of_values() for asked in escape.asked)
        for escape in failed.report.escapes
    )


def ways(prepared: Prepared, failed: HxError) -> Prepared | None:
    """The same call, to be recorded at what the proof has failed on, too.

    And at variations of that: a model with two branches goes four ways.
    """
    kinds = {escape.kind for escape in failed.report.escapes} if failed.report else set()
    if not kinds & ASKING or prepared.slim is not None:
        return None
    most = MOST if prepared.size < LARGE else MOST // 4
    wrong = list(prepared.failed.values())[: most // 3]
    alike = []
    usual = TIMES * _elements(prepared.tensors)
    for inputs in wrong:
        if _elements(inputs) > usual:
            continue  # once is enough of what takes so much longer
        alike.append({name: opposite(tensor) for name, tensor in inputs.items()})
        alike += [fresh(inputs, seed=seed) for seed in (21, 22)]
        alike.append({name: small(tensor) for name, tensor in inputs.items()})
    left = most - len(wrong)
    alike = _different(alike, [prepared.tensors, *wrong])[:left]
    elsewhere = Elsewhere(prepared)
    return dataclasses.replace(prepared, also=wrong, alike=alike, one_of=True, elsewhere=elsewhere)


def padding(prepared: Prepared, failed: VerificationError) -> Prepared | None:
    """The same call, to be recorded as a model does that always pads, or resizes, where this one asks
    whether it has to."""
    if failed.report is None or prepared.until is not None:
        return None
    asked = (asked for escape in failed.report.escapes for asked in escape.asked)
    if all(fits(each) is None for each in asked):
        return None
    # What goes on until nothing is left over never ends, for one that hears that something is.
    room = PADDED * failed.report.nodes + PADDED_LITTLE
    return dataclasses.replace(prepared, pads=Pads(), failed={}, room=room)


def _elements(inputs: Inputs) -> int:
    return sum(tensor.numel() for tensor in inputs.values())


def _different(alike: list[Inputs], known: list[Inputs]) -> list[Inputs]:
    """Those that are no others once more: whole numbers have no sign to turn."""
    found: list[Inputs] = []
    for inputs in alike:
        if not any(_same(inputs, other) for other in (*known, *found)):
            found.append(inputs)
    return found


def _same(a: Inputs, b: Inputs) -> bool:
    return all(_alike(tensor, b[name]) for name, tensor in a.items())


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a is b or (a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all()))

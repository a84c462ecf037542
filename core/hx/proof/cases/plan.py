"""All that a file is proved on, in the order in which it is tried.

1. What was recorded, and what the user has given beside it.
2. Other values at the recorded sizes: fresh ones, and where a number or an answer left the graph,
   those that may lead the model elsewhere (`variations`).
3. Loops that a number in an input counts: more rounds, and one (`counted`).
4. Other sizes: larger, small, far off (`othersizes`), and on the other side of what the model asked
   of them (`crossing`), in ways that come together (`together`), far larger ones; many
   rounds of a loop (`farther`).
5. Where the file has several ways: each of them, at these sizes, with data that lead along it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from ...recording.both.told import is_lost
from ...recording.capture import Capture
from ..verify import Case
from .asking import case_of, run
from .counted import oftener, with_larger_numbers
from .crossing import beyond, far_off
from .farther import at_large, between, farther
from .listening import values_matter
from .othersizes import Sizes, at, at_others, case_at, repeated_at, sizes_of, told
from .otherways import tell_unled
from .together import together, where_others_failed
from .turned import large, opposite, small, zeroed
from .variations import fresh, renumbered

Inputs = dict[str, torch.Tensor]


def planned(captured: Capture, watch: AbstractContextManager | None = None) -> list[Case]:
    """What the model itself gives is asked here; sizes and values that it refuses are no cases.

    `watch` is there while it runs with other values at the recorded sizes.
    """
    prepared = captured.prepared
    recorded = dict(prepared.tensors)
    told = prepared.until is not None or prepared.pads is not None or bool(prepared.told)
    forced = prepared.hollow or told  # it was not all true, what it heard
    real = run(captured, recorded) if forced else captured.real
    captured.real = real
    cases = [Case("recorded", recorded, real)]
    cases += [Case(name, each, run(captured, each)) for name, each in prepared.given.items()]
    with watch or contextlib.nullcontext():
        cases += _other_values(captured)
    cases += oftener(captured, [case.name for case in cases])
    usual = at_others(captured)
    elsewhere = [*usual, *far_off(captured, usual)]
    across, asked = beyond(captured, elsewhere)
    elsewhere += across
    elsewhere += _repeated(captured, across) if captured.others else []
    of_others = [each.recording.escapes.values() for each in (*captured.others, *captured.heard)]
    asked += [a for escapes in of_others for escape in escapes for a in escape.asked]
    elsewhere += together(captured, elsewhere, dict.fromkeys(asked))
    elsewhere += where_others_failed(captured, elsewhere)
    cases += elsewhere + at_large(captured, elsewhere) + between(captured, elsewhere)
    cases += (far := farther(captured))
    cases += with_larger_numbers(captured, elsewhere + far)
    if prepared.one_of and values_matter(captured):
        cases += _led_otherwise(captured, elsewhere)
    for number, other in enumerate(captured.others, 2):
        cases += _of_another_way(captured, other, f"way {number}", usual)
    tell_unled(captured)
    return cases


def _other_values(captured: Capture) -> list[Case]:
    recorded, escapes = dict(captured.prepared.tensors), captured.recording.escapes.values()
    usual = {"fresh": fresh(recorded, seed=1)}
    extra: dict[str, Inputs] = {}  # what a model may well refuse
    if escapes or captured.compiled:
        # A number or a branch left the graph: other inputs may take another way.
        usual |= {f"fresh {n}": fresh(recorded, seed=n) for n in (2, 3, 4)}
        usual["opposite"] = {k: opposite(t) for k, t in recorded.items()}
        usual["small"] = {k: small(t) for k, t in recorded.items()}
        extra = renumbered(recorded)
        if any(each.by_values() for each in escapes):
            extra |= zeroed(recorded)
            extra["large"] = {k: large(t) for k, t in recorded.items()}
    cases: list[Case] = []
    notes: list[str] = []
    for name, tensors in (usual | extra).items():
        found, refused = case_of(captured, name, tensors)
        cases += found
        notes += refused if name in usual else []
    if notes and not cases and (refused := case_of(captured, "recorded", recorded)[1]):
        # One whose calls have converters, and in which they cannot be run as they are.
        why = refused[0].partition(": ")[2]
        captured.notes.insert(
            0, f"the model itself cannot be run: nothing but the recording was compared ({why})"
        )
    else:
        captured.notes += notes
    return cases


def _led_otherwise(captured: Capture, cases: list[Case]) -> list[Case]:
    """Other data at other sizes: what they have there goes another way, or is read on one alone."""
    found: list[Case] = []
    for case in cases:
        if "," in case.name and "=" not in case.name.rpartition(",")[2]:
            continue  # it has other data
        inputs = dict(case.feeds)
        turned = {name: opposite(tensor) for name, tensor in inputs.items()}
        for way, other in (("opposite", turned), ("fresh", fresh(inputs, seed=51))):
            found += case_of(captured, f"{way} at {case.name}", other)[0]
    return found


def _of_another_way(
    captured: Capture, other: Capture, name: str, usual: Sequence[Case]
) -> list[Case]:
    """What one more recording was made on that is in the graph, inputs like these, at the usual
    other sizes as well, and the other side of what the model asked there of sizes."""
    tensors = dict(other.prepared.tensors)
    cases: list[Case] = []
    ways = [
        (name, tensors),
        (f"fresh {name}", fresh(tensors, seed=41)),
        (f"opposite {name}", {key: opposite(tensor) for key, tensor in tensors.items()}),
    ]
    if any(map(is_lost, other.recording.escapes.values())):  # of these data, it may be
        ways += [(f"fresh {name}, {n}", fresh(tensors, seed=40 + n)) for n in (2, 3, 4)]
        ways.append((f"large {name}", {key: large(tensor) for key, tensor in tensors.items()}))
    for way, inputs in ways:
        cases += case_of(captured, way, inputs)[0]
    recorded = sizes_of(captured.prepared)
    elsewhere: list[Case] = []
    for sizes in (sizes_of(captured.prepared, case.feeds) for case in usual):
        if sizes != sizes_of(other.prepared):
            elsewhere += _led_at(other, sizes)
    across, _ = beyond(other, [])
    known = {case.name for case in across}
    across += _repeated(other, across)
    for case in (*[each for each in elsewhere if each.name not in known], *across):
        kept_out = other.beyond.get(case.name)
        case.name = f"{case.name}, {name}"
        if kept_out is not None and kept_out[1].holds(recorded):
            captured.beyond[case.name] = kept_out
        cases.append(case)
    return cases


def _repeated(captured: Capture, across: Sequence[Case]) -> list[Case]:
    """The recorded data at these sizes: fresh ones may go another way there, on which both sides of
    what the model asks of sizes come to the same."""
    found: list[Case] = []
    for case in across:
        tensors = repeated_at(captured.prepared, sizes_of(captured.prepared, case.feeds))
        for again in case_of(captured, f"{case.name}, repeated", tensors)[0]:
            if case.name in captured.beyond:
                captured.beyond[again.name] = captured.beyond[case.name]
            found.append(again)
    return found


def _led_at(other: Capture, sizes: Sizes) -> list[Case]:
    """Other sizes of what led another way: zeros did as such, and are no example of numbers."""
    prepared, name = other.prepared, told(sizes)
    none = [k for k, t in prepared.tensors.items() if t.is_floating_point() and not t.any()]
    if not none:
        return case_at(other, sizes, name)[0]
    tensors = at(prepared, sizes)
    return case_of(other, name, tensors | {key: torch.zeros_like(tensors[key]) for key in none})[0]

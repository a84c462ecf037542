"""Cases that lead along the other ways of a file: with other data, at the same and other sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...findings import OPEN, Finding
from ...ir.recipe import Line
from ...merging.branches.joined_findings import is_lost
from ...samples.signs_and_scales import large, opposite
from ...samples.sizes import Sizes, at, repeated_at, sizes_of, told
from ...samples.variations import fresh
from ..file_proof import Case
from ..subject import Subject
from .across import tell
from .asking import case_of
from .case_source import Planned
from .crossing import crossed, other_answers
from .listening import values_matter
from .othersizes import case_at, other_sizes
from .saturation import unsaturated


def repeated(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases with the recorded data where questions have other answers."""
    if not subject.members or not values_matter(subject):
        return []
    return _repeated(subject, planned.of(other_answers))


def led_otherwise(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases with other data at other sizes: these may go another way there."""
    found: list[Case] = []
    if not subject.recipe.flow.branches or not values_matter(subject):
        return found
    for case in planned.at_other_sizes:
        if "," in case.name and "=" not in case.name.rpartition(",")[2]:
            continue  # it already has other data
        inputs = dict(case.feeds)
        turned = {name: opposite(tensor) for name, tensor in inputs.items()}
        made = case_of(subject, f"opposite at {case.name}", turned)[0]
        found += unsaturated(subject, planned.exact, made)
        found += case_of(subject, f"fresh at {case.name}", fresh(inputs, seed=51))[0]
    return found


def along_members(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases along the way of each further recording in the graph."""
    found: list[Case] = []
    for number, other in enumerate(subject.members, 2):
        found += _of_another_way(subject, planned, other, f"way {number}", found)
    return found


def _of_another_way(
    subject: Subject, planned: Planned, other: Subject, name: str, before: Sequence[Case]
) -> list[Case]:
    """Return cases for one more recording in the graph, beside those of the ways `before` it.

    They are its inputs, inputs like them, the usual other sizes, and the other side of its
    questions about sizes. Where no data lead the model, its way follows from the sizes: then other
    data at sizes that were tried would go the same way again.
    """
    recipe, data_lead = subject.recipe, values_matter(subject)
    tried = [] if data_lead else [sizes_of(recipe, c.feeds) for c in planned.at_other_sizes]
    cases = _with_other_data(subject, planned, other, name, sizes_of(other.recipe) in tried)
    across, _ = crossed(other, [])
    elsewhere: list[Case] = []
    if data_lead:
        usual = (sizes_of(recipe, case.feeds) for case in planned.of(other_sizes))
        for sizes in (each for each in usual if each != sizes_of(other.recipe)):
            elsewhere += _led_at(other, sizes)
        across += _repeated(other, across)
    tried += [] if data_lead else [sizes_of(recipe, case.feeds) for case in before]
    across = [case for case in across if sizes_of(recipe, case.feeds) not in tried]
    known = {case.name for case in across}
    for case in (*[each for each in elsewhere if each.name not in known], *across):
        kept_out = other.beyond.get(case.name)
        case.name = f"{case.name}, {name}"
        if kept_out is not None and kept_out[1].holds(sizes_of(recipe)):
            subject.beyond[case.name] = kept_out
        cases.append(case)
    return cases


def _with_other_data(
    subject: Subject, planned: Planned, other: Subject, name: str, tried: bool
) -> list[Case]:
    """Return cases at the sizes of another way: its inputs, unless these were tried, and others."""
    tensors = dict(other.recipe.inputs)
    ways = [] if tried else [(name, tensors)]
    ways += [
        (f"fresh {name}", fresh(tensors, seed=41)),
        (f"opposite {name}", {key: opposite(tensor) for key, tensor in tensors.items()}),
    ]
    if any(map(is_lost, other.escapes.values())):  # may depend on the data
        ways += [(f"fresh {name}, {n}", fresh(tensors, seed=40 + n)) for n in (2, 3, 4)]
        ways.append((f"large {name}", {key: large(tensor) for key, tensor in tensors.items()}))
    cases: list[Case] = []
    for way, inputs in ways:
        made = case_of(subject, way, inputs)[0]
        wide = way.startswith(("opposite", "large"))
        cases += unsaturated(subject, planned.exact, made) if wide else made
    return cases


def _repeated(subject: Subject, across: Sequence[Case]) -> list[Case]:
    """Return cases with the recorded data at these sizes.

    Fresh data may go another way there, on which both answers to a question lead to equal results.
    """
    found: list[Case] = []
    for case in across:
        tensors = repeated_at(subject.recipe, sizes_of(subject.recipe, case.feeds))
        for again in case_of(subject, f"{case.name}, repeated", tensors)[0]:
            if case.name in subject.beyond:
                subject.beyond[again.name] = subject.beyond[case.name]
            found.append(again)
    return found


def _led_at(other: Subject, sizes: Sizes) -> list[Case]:
    """Return a case at other sizes for inputs that led another way; inputs of zeros stay zeros."""
    recipe, name = other.recipe, told(sizes)
    none = [k for k, t in recipe.inputs.items() if t.is_floating_point() and not t.any()]
    if not none:
        return case_at(other, sizes, name)[0]
    tensors = at(recipe, sizes)
    return case_of(other, name, tensors | {key: torch.zeros_like(tensors[key]) for key in none})[0]


def tell_unled(subject: Subject) -> None:
    """Note the recorded ways that are not proved because no known inputs lead there."""
    recorded = (each for each in (subject, *subject.members) if not each.recipe.forced)
    led = {answer for each in recorded for answer in _of_values(each)}
    found: dict[str, None] = {}
    for heard in subject.forced_members:
        alone = _of_values(heard) - led
        for (file, line), yes in sorted(alone):
            found[f"{'yes' if yes else 'no'} at {file}:{line}"] = None
        for key, escape in heard.escapes.items():
            known = subject.escapes[key]
            own = known is escape or not known.asked.keys() >= escape.asked.keys()
            if alone and escape.asked and own:
                tell(known, "not tried where no inputs are known that lead there")
    if found:
        text = (
            f"no inputs were found for which the answer is {', '.join(list(found)[:3])}: "
            "that branch was recorded, but is not proved"
        )
        subject.notes.append(Finding(OPEN, text, hint="give inputs that lead there"))


def _of_values(subject: Subject) -> set[tuple[Line, bool]]:
    """Return the answers to the model's questions about data."""
    return {(q.line, q.yes) for q in subject.trace.questions if q.of_values}

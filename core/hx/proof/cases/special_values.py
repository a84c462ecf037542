"""Values on which runtimes differ: NaN and infinities, and equal elements where the order counts.

Kernels treat NaN and infinities in different ways: a maximum passes NaN on, or passes it by. At the
smallest sizes that the model accepts, a model that runs in no time gets a case for each of them. A
larger one gets a single case, with each of them in a row of its own, and a heavy one gets none.

Of equal elements, nobody promises which one TopK picks. A model that runs in no time gets cases of
whole numbers and of zeros if it has a TopK, so that the report can tell where picks decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from ...budget import BUDGET
from ...ir.sizes.comparisons import At
from ...samples.number_properties import is_rising
from ...samples.sizes import at, sizes_of
from ...samples.variations import fresh
from ..file_proof import Case
from ..subject import Subject
from .case_source import Planned
from .extremes import is_data, may_be_boxes, room_for_results, run_within, values_lead
from .small_sizes import least_taken

SPECIAL = {"NaN": math.nan, "infinite": math.inf, "negative infinite": -math.inf}


def special_values(subject: Subject, planned: Planned) -> Iterator[Case]:
    """Yield cases with NaN and infinities, as far as the model takes them."""
    recorded, names = dict(subject.recipe.inputs), takes_special(subject)
    if not names:
        return
    words, sizes = sizes_of(subject.recipe), least_taken(subject, planned)
    work = subject.trace.graph.work.beside(words).at(At(sizes))
    if work > BUDGET.work.negligible:
        return
    tensors = at(subject.recipe, sizes) if sizes != words else fresh(recorded, seed=8)
    kinds = {kind: [value] for kind, value in SPECIAL.items()}
    if work > BUDGET.far.cheap_run:
        kinds = {"NaN and infinite": [*SPECIAL.values()]}
    feeds = {kind: with_values(tensors, names, values) for kind, values in kinds.items()}
    yield from _special(subject, feeds)


def equal_elements(subject: Subject, planned: Planned) -> Iterator[Case]:
    """Yield cases with equal elements, for a model that asks for an order of elements."""
    recorded, words = dict(subject.recipe.inputs), sizes_of(subject.recipe)
    names = takes_special(subject)
    if not names or not any(node.op == "TopK" for node in subject.trace.nodes):
        return
    if subject.trace.graph.work.beside(words).at(At(words)) <= BUDGET.far.cheap_run:
        ways = {"whole": lambda t: (2 * t).round(), "zero": torch.zeros_like}
        tensors = fresh(recorded, seed=9)
        feeds = {
            kind: {key: change(t) if key in names else t for key, t in tensors.items()}
            for kind, change in ways.items()
        }
        yield from _special(subject, feeds)


def _special(subject: Subject, feeds: Mapping[str, Mapping[str, torch.Tensor]]) -> Iterator[Case]:
    room = room_for_results(subject)
    for kind, tensors in feeds.items():
        for case in run_within(subject, room, f"{kind} values", tensors):
            case.beyond, case.special = True, kind
            yield case


def takes_special(subject: Subject) -> list[str]:
    """Return the inputs that may have any values; none for a model that such values may lead.

    With them, a loop that values end may never end.
    """
    loops = any(node.op == "Loop" for node in subject.trace.nodes)
    if loops or values_lead(subject) or subject.trace.effects.draws:
        return []
    return [name for name, tensor in subject.recipe.inputs.items() if _takes_any(tensor)]


def _takes_any(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds floats that are neither sorted nor corners of boxes."""
    return (
        is_data(tensor)
        and not tensor.is_complex()
        and not is_rising(tensor)
        and not may_be_boxes(tensor)
    )


def with_values(
    tensors: Mapping[str, torch.Tensor], names: list[str], values: list[float]
) -> dict[str, torch.Tensor]:
    """Return the tensors with each of these values at two places, in a part of its own."""
    made = dict(tensors)
    for turn, name in enumerate(names):
        made[name] = tensor = made[name].clone(memory_format=torch.contiguous_format)
        part = tensor.numel() / len(values)
        for i, value in enumerate(values):
            for share in (0.62 + turn / 7, 0.24 + turn / 7):
                tensor.view(-1)[int((i + share % 1) * part)] = value
    return made

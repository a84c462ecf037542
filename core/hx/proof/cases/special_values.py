"""Values on which runtimes differ: NaN and infinities, and equal elements where the order counts.

Kernels treat NaN and infinities in different ways: a maximum passes NaN on, or passes it by. At the
smallest sizes that the model accepts, a model that runs in no time gets a case for each of them. A
larger one gets a single case, with each of them in a row of its own, and a heavy one gets none.

Of equal elements, nobody promises which one TopK picks. A model that runs in no time gets cases of
whole numbers and of zeros if it has a TopK, so that the report can tell where picks decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import torch

from ...budget import BUDGET
from ...ir.node_reads import with_inner
from ...ir.sizes.comparisons import At
from ...ir.value import Constant, Node, Value
from ...recording.reads.size_questions import alone
from ...samples.number_properties import is_rising
from ...samples.sizes import at, sizes_of
from ...samples.variations import fresh
from ..file_proof import Case
from ..subject import Subject
from .case_source import Planned
from .extremes import values_lead
from .small_sizes import least_taken
from .trials import is_data, may_be_boxes, room_for_results, run_within

SPECIAL = {"NaN": math.nan, "infinite": math.inf, "negative infinite": -math.inf}


def special_values(subject: Subject, planned: Planned) -> Iterator[Case]:
    """Yield cases with NaN and infinities, as far as the model takes them."""
    recorded, names = dict(subject.recipe.inputs), takes_special(subject)
    if not names:
        return
    words, sizes = sizes_of(subject.recipe), least_taken(subject, planned)
    work = subject.trace.graph.work.beside(words).at(At(sizes))  # none, if that is not known
    if work > BUDGET.work.negligible:
        return
    tensors = at(subject.recipe, sizes) if sizes != words else fresh(recorded, seed=8)
    kinds = {kind: [value] for kind, value in SPECIAL.items()}
    if work > BUDGET.far.cheap_run or not subject.trace.is_recorded:
        kinds = {"NaN and infinite": [*SPECIAL.values()]}
    feeds = {kind: with_values(tensors, names, values) for kind, values in kinds.items()}
    yield from _special(subject, feeds)


def equal_elements(subject: Subject, planned: Planned) -> Iterator[Case]:
    """Yield cases with equal elements, for a model that asks for an order of elements."""
    recorded, words = dict(subject.recipe.inputs), sizes_of(subject.recipe)
    names = takes_special(subject)
    if not names or not any(node.op == "TopK" for node in with_inner(subject.trace.nodes)):
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
            if subject.trace.is_recorded or _is_steady(subject, room, case):
                yield case


def _is_steady(subject: Subject, room: float, case: Case) -> bool:
    """Return True if the model gives the same results again: it draws no numbers."""
    found = run_within(subject, room, case.name, case.feeds)
    return bool(found) and all(
        torch.equal(torch.as_tensor(a).nan_to_num(), torch.as_tensor(b).nan_to_num())
        for a, b in zip(case.expected, found[0].expected)
    )


def takes_special(subject: Subject) -> list[str]:
    """Return the inputs that may have any values; none for a model that such values may lead."""
    draws = subject.trace.effects.draws and subject.trace.is_recorded  # else each case tells
    if draws or may_never_end(subject.trace.nodes) or values_lead(subject):
        return []
    return [name for name, tensor in subject.recipe.inputs.items() if _takes_any(tensor)]


def may_never_end(nodes: Iterable[Node]) -> bool:
    """Return True if floats alone end one of the loops: an infinite one halves for ever."""
    for node in nodes:
        if any(may_never_end(body.nodes) for body in node.bodies):
            return True
        if node.op == "Loop" and not node.domain and not _is_bounded(node.inputs[0]):
            if _reads_floats(node):
                return True
    return False


def _is_bounded(rounds: Value | None) -> bool:
    """Return True if sizes, or a number, limit the rounds of a loop."""
    if isinstance(rounds, Constant):
        return bool(rounds.item() <= BUDGET.nodes.rounds)
    return rounds is not None and alone(rounds)


def _reads_floats(loop: Node) -> bool:
    """Return True if floats decide whether a loop goes on, in this round or through its states."""
    (body,) = loop.bodies
    states = dict(zip(body.inputs[2:], zip(loop.inputs[2:], body.outputs[1:])))
    waiting, seen = [loop.inputs[1], body.outputs[0]], set[Value]()
    while waiting:
        value = waiting.pop()
        if value is None or value in seen or value.fixed:
            continue
        seen.add(value)
        if value.dtype is not None and value.dtype.is_floating_point:
            return True
        waiting += states.get(value, ())
        if value.node is not None and value.node.op not in ("Shape", "Size"):
            waiting += value.node.inputs
            waiting += [each for inner in value.node.bodies for each in inner.outputs]
    return False


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

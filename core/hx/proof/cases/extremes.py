"""Values beyond the recorded range, at the smallest sizes that the model accepts.

A bound that no recorded value reaches, as a clamp at 40, shows nowhere else. Two cases, always: the
other sign, and the largest power of two times the values at which the model is finite and agrees with
itself in float64. A heavy model gets a middling power on one row of a batch. Where a run takes time, the
model runs in float64 only if the file gives other results. A model that runs in no time gets more
cases: very large values hide a bound behind a softmax, and a sum of both signs may not reach one. Masks
stay as they are, and a model that gives NaN does not take such values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ...budget import BUDGET
from ...ir.node_reads import reads, with_inner
from ...ir.sizes.comparisons import At
from ...ir.value import Value
from ...samples.boxes_and_cells import with_corners_in_order
from ...samples.masks import ends_of_mask, everywhere
from ...samples.number_properties import is_rising, is_whole
from ...samples.signs_and_scales import negative, opposite, positive
from ...samples.sizes import at, sizes_of, told
from ...samples.variations import fresh
from ..file_proof import Case
from .asking import case_of
from .saturation import unsaturated
from .small_sizes import is_heavy, least_taken, one_row
from .trials import (
    MIDDLE,
    POWERS,
    Trial,
    computes_in,
    finite,
    is_data,
    may_be_boxes,
    works_out_of_sight,
)

if TYPE_CHECKING:
    from ..subject import Subject
    from .case_source import Planned

Inputs = Mapping[str, torch.Tensor]

# Operators whose results have an order that equal elements leave open.
_ORDERS = frozenset(("NonMaxSuppression", "TopK", "Unique"))


def beyond_the_range(subject: Subject, planned: Planned) -> list[Case]:
    """One case of the other sign and one of large values, as far as the model takes them."""
    recorded = dict(subject.recipe.inputs)
    data = [name for name, tensor in recorded.items() if is_data(tensor)]
    if not data or values_lead(subject):
        return []
    words = sizes_of(subject.recipe)
    grow = [name for name in data if not may_be_boxes(recorded[name])]
    heavy = is_heavy(subject)
    for where, tensors in _at_small_sizes(subject, planned):
        turned = {name: _opposite(t) if name in data else t for name, t in tensors.items()}
        other_sign = finite(subject, case_of(subject, f"opposite values{where}", turned)[0])
        if other_sign:
            break
    found = list(unsaturated(subject, planned.exact, other_sign))
    trial = Trial.of(subject, planned.exact)
    name = f"large values{where}"
    work = subject.trace.graph.work.beside(words)
    cheap = work.at(At(words)) <= BUDGET.far.cheap_run
    powers = [] if cheap else [MIDDLE] if heavy else POWERS[::-1]
    at_least = work.at(At(sizes_of(subject.recipe, tensors))) <= BUDGET.far.cheap_run
    if large := trial.unconfirmed(name, tensors, grow, powers):
        few = _at_small_ones(trial, tensors, grow, where) if at_least else ()
        return [*found, *large, *few]
    power, large = trial.largest(
        name, tensors, grow, POWERS.index(MIDDLE) if heavy else len(POWERS)
    )
    found += large
    if not cheap or trial.halves:
        return found
    if large:
        found += trial.case(f"large opposite values{where}", turned, grow, power)
    return [*found, *_in_no_time(trial, planned, grow, power if large else None)]


def _at_small_sizes(subject: Subject, planned: Planned) -> Iterator[tuple[str, Inputs]]:
    """Yield inputs at the smallest sizes that the model takes, then at the recorded ones, named."""
    words, least = sizes_of(subject.recipe), least_taken(subject, planned)
    row = [one_row(subject, planned.cases, least)] if is_heavy(subject) else []
    tried = [*row, least, words]
    for sizes in [each for i, each in enumerate(tried) if each not in tried[:i]]:
        given = fresh(dict(subject.recipe.inputs), seed=5)
        tensors = at(subject.recipe, sizes) if sizes != words else given
        yield (f" at {told(sizes)}" if sizes else ""), tensors


def _in_no_time(
    trial: Trial, planned: Planned, grow: Sequence[str], power: int | None
) -> Iterator[Case]:
    """Yield further cases of a model that runs in no time; `power` is one that it takes, if any."""
    recorded = dict(trial.subject.recipe.inputs)
    if power is not None:
        yield from _at_recorded_sizes(trial, recorded, grow, power)
        yield from _along_ways(trial, grow, power)
    elif any(isinstance(each, torch.Tensor) and is_whole(each) for each in trial.subject.results):
        return  # NaN, as of zero by zero, does not show in them
    yield from _of_few_values(trial, recorded, grow)
    yield from _whole_in_many_rows(trial, planned, recorded, grow)
    boxes = [name for name, t in recorded.items() if is_data(t) and name not in grow]
    yield from _of_larger_boxes(trial, recorded, boxes)


def _at_recorded_sizes(
    trial: Trial, recorded: Inputs, grow: Sequence[str], power: int
) -> Iterator[Case]:
    """Yield cases of large values, and of a few times the recorded ones, with either sign.

    With two of each size, a maximum or a mean is one of few values, which may be within a bound.
    """
    some, others = (fresh(recorded, seed=seed) for seed in (6, 7))
    turned = {name: _opposite(t) if name in grow else t for name, t in others.items()}
    middle = min(power, POWERS[1])  # a square of larger ones hides all that is not squared
    yield from trial.case("large values", some, grow, middle)
    yield from trial.case("large opposite values", turned, grow, middle)
    yield from _of_one_sign(trial, some, others, grow)


def _of_one_sign(
    trial: Trial, some: Inputs, others: Inputs, grow: Sequence[str], where: str = ""
) -> Iterator[Case]:
    if any(is_rising(some[name]) for name in grow):
        return  # an absolute value is not sorted
    for name, sign, tensors in (("positive", positive, some), ("negative", negative, others)):
        feeds = {key: sign(t) if key in grow else t for key, t in tensors.items()}
        yield from trial.case(f"larger {name} values{where}", feeds, grow, POWERS[0])


def _at_small_ones(
    trial: Trial, tensors: Inputs, grow: Sequence[str], where: str
) -> Iterator[Case]:
    """Yield further cases of a model that runs in no time at the smallest sizes alone."""
    yield from _of_one_sign(trial, tensors, tensors, grow, where)
    yield from _of_few_values(trial, tensors, grow, where)


def _ordered(subject: Subject) -> set[str]:
    """Return the inputs that those elements follow from that the model puts in order."""
    nodes = subject.trace.nodes
    sorting = [n for n in nodes if any(each.op in _ORDERS for each in with_inner([n]))]
    waiting, seen = [value for node in sorting for _, value in reads(node)], set[Value]()
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen.add(value)
            if value.node is not None and value.node.op not in ("Shape", "Size"):
                waiting += (each for _, each in reads(value.node))
    return {name for name, value in subject.trace.inputs if value in seen}


def _along_ways(trial: Trial, grow: Sequence[str], power: int) -> Iterator[Case]:
    """Yield cases of large values along each way of a model that asks about values."""
    middle = min(power, POWERS[1])
    for number, way in enumerate((trial.subject, *trial.subject.members), 1):
        if trial.subject.members:
            inputs = dict(way.recipe.inputs)
            yield from trial.case(f"large values, way {number}", inputs, grow, middle)


def _of_larger_boxes(trial: Trial, recorded: Inputs, names: Sequence[str]) -> list[Case]:
    """Return a case of boxes that are a few times as large, and as far away."""
    feeds = {key: tensor.clone() for key, tensor in fresh(recorded, seed=11).items()}
    for name in names:
        feeds[name][..., -4:] *= 2.0 ** POWERS[0]
    return trial.case("larger boxes", feeds, power=0) if names else []


def _of_few_values(
    trial: Trial, recorded: Inputs, data: Sequence[str], where: str = ""
) -> Iterator[Case]:
    """Yield cases of small, whole and equal numbers, of zeros, and of one large number among small ones.

    These are ties, edges of bins, no variance, and what a normalization leaves of a bound.

    Without variance, results may be nothing but rounding. In float32, float64 tells. Sorted numbers,
    as the knots of a curve, stay: equal ones may be no knots. The order of equal elements is nobody's
    promise, so what the model sorts stays, too.
    """
    if data and not works_out_of_sight(trial.subject):  # nobody knows what rounding does there
        yield from trial.case(f"small values{where}", fresh(recorded, seed=7), data, -POWERS[1])
    data = [name for name in data if not is_rising(recorded[name])]
    alone = [name for name in data if recorded[name].is_contiguous()]  # else elements may be one
    if alone:
        feeds = dict(recorded)
        for place, name in enumerate(alone):
            feeds[name] = _with_one_large(recorded[name], place)
        yield from trial.case(f"one large value{where}", feeds, power=0)
    ordered = _ordered(trial.subject)
    data = [name for name in data if name not in ordered]
    if not data:
        return
    ways = {"whole": lambda t: (2 * t).round(), "zero": torch.zeros_like}
    if not computes_in(trial.subject, torch.float64):
        ways["equal"] = lambda t: torch.full_like(t, t.mean())
    for name, change in ways.items():
        feeds = {
            k: change(t) if k in data and not t.is_complex() else t for k, t in recorded.items()
        }
        yield from trial.case(f"{name} values{where}", feeds, power=0)


def _whole_in_many_rows(
    trial: Trial, planned: Planned, recorded: Inputs, data: Sequence[str]
) -> Iterator[Case]:
    """Yield a case of whole numbers with as many rows as the model takes in no time.

    Of a few rows, none may have two largest elements, and name one of them.
    """
    subject, words, ordered = trial.subject, sizes_of(trial.subject.recipe), _ordered(trial.subject)
    data = [name for name in data if name not in ordered and not is_rising(recorded[name])]
    cases = [case for case in planned.cases if data and not case.beyond]
    sized = [(sizes_of(subject.recipe, case.feeds), case.feeds, case.far) for case in cases]
    work = subject.trace.graph.work.beside(words)
    cheap = [each for each in sized if work.at(At(each[0])) <= BUDGET.far.cheap_run]
    most = max(cheap, key=lambda each: sum(t.numel() for t in each[1].values()), default=None)
    if most is None or most[0] == words:
        return
    sizes, like, far = most
    ways = {
        k: _of_few_steps if k in data and not t.is_complex() else torch.clone
        for k, t in like.items()
    }
    feeds = {k: ways[k](t) for k, t in like.items()}
    for case in trial.case(f"whole values at {told(sizes)}", feeds, power=0):
        case.far = far
        yield case


def _of_few_steps(tensor: torch.Tensor) -> torch.Tensor:
    """Return numbers rounded to multiples of their mean size, as whole numbers: many are equal."""
    mean = tensor.abs().mean()
    return (tensor / mean).round().nan_to_num()


def _with_one_large(tensor: torch.Tensor, place: int) -> torch.Tensor:
    """Return numbers of which one is large, in each input at another place."""
    made = tensor.clone()
    made.view(-1)[(made.numel() * 5 // 8 + 3 * place) % made.numel()] *= 2.0 ** POWERS[1]
    return made


def equal_masks(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases with masks that hide everything, and masks that hide nothing.

    Rows without an open place are where -inf and a large negative number differ. A model that gives
    NaN there does not take such masks.
    """
    recorded = dict(subject.recipe.inputs)
    masks = {name: ends for name, t in recorded.items() if (ends := ends_of_mask(t, name))}
    if not masks or values_lead(subject):
        return []
    sizes = least_taken(subject, planned)
    if is_heavy(subject) and not case_of(subject, told(sizes), at(subject.recipe, sizes))[0]:
        sizes = sizes_of(subject.recipe)
    where = f" at {told(sizes)}" if sizes else ""
    tensors, trial = at(subject.recipe, sizes), Trial.of(subject, planned.exact)
    return [
        case
        for value in (0, 1)
        for case in trial.case(f"masks of {value}{where}", everywhere(tensors, masks, value))
    ]


def values_lead(subject: Subject) -> bool:
    """Return whether values decide where the model goes: the file may not go there, and the report then mentions it.

    A number that the graph computes, such as the rounds of a loop, leads both to the same place.
    """
    ways = (subject, *subject.members, *subject.forced_members)
    escapes = (e for each in ways for e in each.escapes.values())
    return any(e.by_values() and not e.calculated for e in escapes)


def _opposite(tensor: torch.Tensor) -> torch.Tensor:
    """The other sign; what is sorted stays sorted, and boxes stay boxes."""
    if tensor.is_complex() or tensor.dim() == 0:
        return opposite(tensor)
    if is_rising(tensor):
        return opposite(tensor.flip(-1))
    turned = with_corners_in_order(tensor, opposite(tensor))
    if may_be_boxes(tensor) and bool((tensor[..., :-4] == tensor[..., :-4].round()).all()):
        turned[..., :-4] = tensor[..., :-4]  # the index of a box's picture
    return turned

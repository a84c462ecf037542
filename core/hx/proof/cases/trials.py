"""Trials of inputs with other values: a case is what the model takes and computes beyond rounding."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from ...budget import BUDGET
from ...ir.node_reads import with_inner
from ...ir.sizes.comparisons import At
from ...recording.runs.expected_memory import expected_memory
from ...recording.runs.known_results import Returned
from ...samples.boxes_and_cells import corners_are_in_order
from ...samples.masks import ends_of_mask
from ...samples.variations import jitter
from ...torchworld.modes.result_limit import ResultLimit
from ...torchworld.modes.run_mode import RunMode
from ..differences.compare import NEAR, Tolerance, coarser, difference
from ..differences.halves import HALVES
from ..file_proof import Case
from .saturation import note_saturated, saturated

if TYPE_CHECKING:
    from ..differences.float64 import InFloat64
    from ..subject import Subject

Inputs = Mapping[str, torch.Tensor]

POWERS = (4, 8, 12, 16, 20)  # of two
MIDDLE = POWERS[2]


def is_data(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds floats and is not a mask."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return False
    return tensor.layout is torch.strided and ends_of_mask(tensor) is None


def may_be_boxes(tensor: torch.Tensor) -> bool:
    """Return whether a tensor may hold boxes: the work that they lead to grows with them."""
    return not tensor.is_complex() and tensor.dim() > 1 and corners_are_in_order(tensor)


@dataclass(frozen=True)
class Trial:
    """Runs of a model with larger values, and the conditions on which one is a case."""

    subject: Subject
    exact: InFloat64
    halves: bool  # values are halves, which may overflow without a trace in the outputs
    room: float  # bytes of results that a run may return

    @classmethod
    def of(cls, subject: Subject, exact: InFloat64) -> Trial:
        return cls(subject, exact, computes_in(subject, torch.float16), room_for_results(subject))

    def case(
        self, name: str, tensors: Inputs, grow: Sequence[str] = (), power: int = POWERS[0]
    ) -> list[Case]:
        """Return the case of inputs, some times a power of two, if the model takes these values.

        Only if the file gives other results than the model, the model runs in float64, too.
        """
        found = self._run(name, tensors, grow, power)
        for case in found:
            case.confirmed = functools.partial(self._if_right, case, power)
        return found

    def unconfirmed(
        self, name: str, tensors: Inputs, grow: Sequence[str], powers: Sequence[int]
    ) -> list[Case]:
        """Return a case of the first power with finite results, before the model runs in float64.

        A file that gives the model's results there is right. If it gives others, `confirmed` decides
        whether they are an error: float64 takes several times as long.
        """
        if not grow or (powers and self._takes_the_least()):
            return []
        for power in powers:
            found = self._run(name, tensors, grow, power)
            for case in found:
                case.confirmed = functools.partial(self._confirmed, case, tensors, grow, power)
            if found:
                return found
        return []

    def _confirmed(
        self, case: Case, tensors: Inputs, grow: Sequence[str], power: int
    ) -> list[Case]:
        """Return a case, or else one of a lower power, on which the model and float64 agree."""
        if not saturated(self.subject, self.exact, case) and self._agrees(case, power):
            return [case]
        return self.largest(case.name, tensors, grow, POWERS.index(power))[1]

    def _takes_the_least(self) -> bool:
        """Return True if only the least power is tried, because float64 confirms no larger one."""
        subject = self.subject
        return self.halves or subject.trace.effects.draws or works_out_of_sight(subject)

    def largest(
        self, name: str, tensors: Inputs, grow: Sequence[str], below: int = len(POWERS)
    ) -> tuple[int, list[Case]]:
        """Return the largest power that gives a case: the model takes less and less of them."""
        power, found, why = 0, list[Case](), ""
        low, high = 0, (1 + self.halves if self._takes_the_least() else below)
        while grow and low < high:
            middle = (low + high) // 2
            cases, why = self._accepted(name, tensors, grow, POWERS[middle])
            if cases:
                power, found, low = POWERS[middle], cases, middle + 1
            else:
                high = middle
        if why and not found:
            note_saturated(self.subject, name, why)
        return power, found

    def _accepted(
        self, name: str, tensors: Inputs, grow: Sequence[str], power: int
    ) -> tuple[list[Case], str]:
        """Return the case, if it is one, or else which kernel saturates, if one does."""
        cases = self._run(name, tensors, grow, power)
        if not cases:
            return [], ""
        if why := saturated(self.subject, self.exact, cases[0]):
            return [], why
        return cases if self._is_right(cases[0], power) else [], ""

    def _if_right(self, case: Case, power: int) -> list[Case]:
        is_exact = not saturated(self.subject, self.exact, case)
        return [case] if is_exact and self._is_right(case, power) else []

    def _is_right(self, case: Case, power: int) -> bool:
        """Return whether a case can distinguish a wrong file from a right one."""
        if not self._agrees(case, power):
            return False
        return not self.halves or _is_moved_little(self.subject, case)

    def _run(self, name: str, tensors: Inputs, grow: Sequence[str], power: int) -> list[Case]:
        """Return the case of inputs, some times a power of two, if its results are finite."""
        more = {key: t * 2.0**power if key in grow else t for key, t in tensors.items()}
        needed = expected_memory(self.subject.trace, self.subject.escapes.values(), more)
        if needed > BUDGET.bytes.search_results:
            return []
        return finite(self.subject, run_within(self.subject, self.room, name, more))

    def _agrees(self, case: Case, power: int) -> bool:
        """Return whether the model and its float64 version agree on a case.

        The effect of rounding on foreign kernels, and on a model that draws, is unknown: these get
        the least power.
        """
        if answers := self.exact(case):
            return _are_near(self.subject, case, answers, NEAR)
        drew = self.subject.trace.effects.draws
        return power == POWERS[0] and (drew or works_out_of_sight(self.subject))


def room_for_results(subject: Subject) -> float:
    """Return the bytes of results that a run with large values may return."""
    recorded = subject.trace.graph.work.memory(At({}))
    return BUDGET.bytes.search_results + BUDGET.elements.outputs_factor * recorded


def works_out_of_sight(subject: Subject) -> bool:
    """Return whether kernels that are not PyTorch's compute: no limit holds within these.

    Python's own calls, such as `range`, compute nothing out of sight.
    """
    targets = (n.origin.target for n in with_inner(subject.trace.nodes) if n.origin is not None)
    return any(
        not target.startswith(("torch.", "aten::")) and ("." in target or ":" in target)
        for target in targets
    )


def run_within(subject: Subject, room: float, name: str, feeds: Inputs) -> list[Case]:
    """Return the case of some inputs, unless the model refuses them or works far more on them."""
    runner = replace(subject.runner)  # a run that is given up here says nothing of other runs
    ran = runner.run(dict(feeds), tap=RunMode(ResultLimit(room)))
    return (
        [Case(name, dict(feeds), ran.results, lines=ran.lines)] if isinstance(ran, Returned) else []
    )


def computes_in(subject: Subject, dtype: torch.dtype) -> bool:
    """Return whether some value of the graph has this dtype."""
    return any(value.dtype == dtype for node in subject.trace.nodes for value in node.outputs)


def _is_moved_little(subject: Subject, case: Case) -> bool:
    """Return whether a unit in the last place of the inputs moves the results by less than is allowed.

    Where it moves them by more, each step of a graph in halves does so, too.
    """
    feeds = dict(zip(case.feeds, jitter(list(case.feeds.values()))))
    ran = subject.runner.known(feeds)
    return isinstance(ran, Returned) and _are_near(subject, case, ran.results, 1 / NEAR)


def _are_near(subject: Subject, case: Case, answers: Sequence[Any], times: float) -> bool:
    """Return whether results differ from a case's by less than `times` the tolerance."""
    half = next((each for each in HALVES[::-1] if computes_in(subject, each)), None)
    for want, answer in zip(case.expected, answers):
        if not isinstance(want, torch.Tensor) or answer is None:
            continue
        usual = Tolerance.for_dtype(coarser(want.dtype, half))
        tolerance = Tolerance(times * usual.share, 0.0, mean=times * usual.mean)
        if difference(want.cpu(), answer.cpu().to(want.dtype), tolerance).problem:
            return False
    return True


def stays_finite(subject: Subject, case: Case) -> bool:
    """Return whether every result that is finite in the recording is also finite in a case."""
    return all(
        _is_finite(want) or not _is_finite(real)
        for real, want in zip(subject.results, case.expected)
    )


def finite(subject: Subject, cases: list[Case]) -> list[Case]:
    """The cases with values beyond the recorded range, unless results are infinite, or ties decide."""
    for case in cases:
        case.beyond = True
    fair = all(stays_finite(subject, case) and not _has_ties(subject, case) for case in cases)
    return cases if fair else []


def _has_ties(subject: Subject, case: Case) -> bool:
    """Return whether a model that suppresses boxes gives equal scores, where the recorded ones differ.

    If many are 1, nobody promises which boxes come first, nor which of them are kept.
    """
    if not any(node.op == "NonMaxSuppression" for node in with_inner(subject.trace.nodes)):
        return False
    pairs = zip(subject.results, case.expected)
    return any(_all_differ(real) and not _all_differ(want) for real, want in pairs)


def _all_differ(result: Any) -> bool:
    """Return whether a result holds several floats, no two of them equal."""
    if not isinstance(result, torch.Tensor) or not result.is_floating_point():
        return False
    return result.numel() > 1 and result.unique().numel() == result.numel()


def _is_finite(result: Any) -> bool:
    return not isinstance(result, torch.Tensor) or bool(result.detach().isfinite().all())

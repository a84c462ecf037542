"""Protocol of a source of cases, and the cases that the sources before it have found."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...ir.recipe import Sizes
from ...ir.sizes.comparisons import Asked

if TYPE_CHECKING:
    from ..differences.float64 import InFloat64
    from ..file_proof import Case
    from ..subject import Subject

Cases: TypeAlias = Callable[["Subject", "Planned"], Iterable["Case"]]


@dataclasses.dataclass(frozen=True)
class CaseSource:
    """One kind of cases: `cases(subject, planned)` gives those that fit into the budget.

    Inputs that the model refuses give no cases.
    """

    cases: Cases
    needs_trace: bool = False  # else also for a file that was made elsewhere
    at_other_sizes: bool = False  # sources after it vary these cases
    if_right: bool = False  # needless for a file that is wrong at other sizes

    def applies(self, subject: Subject) -> bool:
        return subject.trace.is_recorded or not self.needs_trace


@dataclasses.dataclass
class Planned:
    """The cases so far, by their source."""

    exact: InFloat64  # the model's outputs in float64; none where they are not known
    file: Path | bytes  # what is proved
    # Entered while the model runs with other values at the recorded sizes.
    watch: AbstractContextManager[Any] = dataclasses.field(default_factory=contextlib.nullcontext)
    # Questions of the model, also those behind other answers.
    questions: dict[Asked, None] = dataclasses.field(default_factory=dict)
    refused: list[Sizes] = dataclasses.field(default_factory=list)  # sizes that the model refuses
    found: dict[CaseSource, list[Case]] = dataclasses.field(default_factory=dict)
    small: Sizes | None = None  # the smallest sizes that the model takes, once they are known

    @property
    def cases(self) -> list[Case]:
        return [case for cases in self.found.values() for case in cases]

    @property
    def at_other_sizes(self) -> list[Case]:
        return [
            case for source, cases in self.found.items() if source.at_other_sizes for case in cases
        ]

    def of(self, cases: Cases) -> list[Case]:
        """Return the cases of one source."""
        return next((each for source, each in self.found.items() if source.cases is cases), [])

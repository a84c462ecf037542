"""Rejected file, with everything that a diagnosis may look at."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...ir.recipe import Sizes
from ...ir.size_moves import Move
from ...samples.sizes import sizes_of
from .first_difference import Difference, locate

if TYPE_CHECKING:
    from ...contributions import GraphPass
    from ...graph.model_parts import Parts
    from ...ir.escapes import Escape
    from ..file_proof import Case
    from ..proof import Proof
    from ..subject import Subject


@dataclass(frozen=True)
class Rejected:
    subject: Subject
    parts: Parts  # of the file
    rewrote: list[GraphPass]  # passes of packs that changed it
    path: Path
    target: Path | None  # final path of the file
    kernels: list[type]  # reference kernels of packs
    proof: Proof

    @functools.cached_property
    def failed_names(self) -> list[str]:
        """Names of the cases that failed."""
        return [check.name for check in self.proof.wrong_cases]

    @functools.cached_property
    def case(self) -> Case | None:
        """First case that failed."""
        first = next(iter(self.failed_names), None)
        return next((case for case in self.subject.cases if case.name == first), None)

    @functools.cached_property
    def difference(self) -> Difference:
        """First wrong node in that case; the model runs once more for it."""
        if self.case is None or self.subject.recipe.request.weights.hollow:
            return Difference([], [], None)
        return locate(self.subject, self.parts, self.path, self.case, self.target, self.kernels)

    def cases(self, ok: bool) -> list[Case]:
        """Return the cases that were right, or those that failed."""
        checked = zip(self.subject.cases, self.proof.cases)
        return [case for case, check in checked if check.ok is ok]

    @functools.cached_property
    def failed_sizes(self) -> list[Sizes]:
        """Sizes of the cases that failed."""
        return [sizes_of(self.subject.recipe, case.feeds) for case in self.cases(ok=False)]

    @functools.cached_property
    def crossed(self) -> tuple[Escape | None, Move | None]:
        """First question with another answer in a failed case, and limits that exclude it."""
        beyond = self.subject.beyond
        known = (beyond[name] for name in self.failed_names if name in beyond)
        return next(known, (None, None))

    @functools.cached_property
    def lost(self) -> list[Escape]:
        """Values that left the graph; the one whose question was crossed comes first."""
        lost = [each for each in self.subject.escapes.values() if not each.carried]
        return sorted(lost, key=lambda each: each is not self.crossed[0])

    def rules_out_no_failure(self, move: Move) -> bool:
        """Return True if no failed case is within these limits; else they would be of no use."""
        return not any(map(move.holds, self.failed_sizes))

"""Work that a search spends, in runs of the model."""

from __future__ import annotations

from dataclasses import dataclass

from ..budget import BUDGET
from ..errors import UsageError
from ..text import amount


@dataclass(frozen=True)
class Effort:
    """A name for the number of runs after which a search tries nothing new."""

    name: str = "normal"

    def __post_init__(self) -> None:
        known = BUDGET.effort.by_name
        if self.name not in known:
            raise UsageError(
                f"effort={self.name!r} is unknown", hint=f"choose one of {', '.join(known)}"
            )

    @property
    def runs(self) -> int:
        return BUDGET.effort.by_name[self.name]


@dataclass
class Spending:
    """Recordings and other runs of the model so far. A proof that has begun is not cut short.

    A recording with many times the nodes of the first one counts as so many: it goes round a loop
    more often than the model itself. A run at larger sizes counts by its work.
    """

    effort: Effort | None = None
    recordings: int = 0
    others: int = 0
    nodes: int = 0  # of the first recording
    further: float = 0.0  # work of long recordings and runs beyond one each, in first ones

    def record(self, nodes: int) -> None:
        """Count a recording that made so many nodes."""
        self.recordings += 1
        self.nodes = self.nodes or max(nodes, 1)
        self.further += max(nodes / self.nodes - 1, 0)

    def run(self, times: float) -> None:
        """Count a run with so many times the work of a run on the recorded inputs."""
        self.others += 1
        self.further += max(times - 1, 0)

    @property
    def is_over(self) -> bool:
        spent = self.recordings + self.further + self.others
        return self.effort is not None and spent >= self.effort.runs

    @property
    def accepts_promise(self) -> bool:
        """Return whether a file that is promised for some sizes ends the search."""
        least = self.effort is not None and self.effort.runs <= BUDGET.effort.low
        return least or self.is_over

    def __str__(self) -> str:
        if self.effort is None:
            return ""
        recorded = f"{amount(self.recordings, 'recording')}"
        runs = f"{amount(self.others, 'other run')} of the model"
        spent = self.recordings + self.others + self.further
        more = f" (as long as {spent:,.0f} of the first)" if self.further >= 1 else ""
        return f"{recorded} and {runs}{more}, of {self.effort.runs:,} ({self.effort.name} effort)"

"""Time of an export: seconds by stage and by strategy. They are shown, and decide nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import HxError
from .report import Report
from .sections import File, Strategy

Progress = Callable[[str], None]

PREPARE, SEARCH = "prepare", "search"
# Stages by name, with their text in the progress line, if it changes as they begin.
STAGES = {
    PREPARE: "",  # imports, packs, and checks of the call
    "record": "recording the model",
    "assemble": "assembling the graph",
    "passes": "",
    "save": "writing the file",
    "verify": "running the model on other inputs",
    "sizes": "looking for sizes that are baked in",
    "check nodes": "comparing every node",
    "explain": "looking for the reason why the file is wrong",
    SEARCH: "",  # the choice of the next strategy
}
RECORDING = ("record", "assemble", "passes")
WRITING = ("save",)
PROOF = ("verify", "sizes", "check nodes")


class Timeline:
    """Stages and strategies of one export, in order. Each moment counts for one stage.

    A stage lasts until the next one begins, so the stages add up to the whole export. The progress
    line shows the stage, and from the second strategy on its name.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self.strategies: list[Strategy] = []
        self._progress = progress or (lambda stage: None)
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._stage, self._since = PREPARE, _now()
        self._name, self._told = "", ""
        self._before = dict(self._seconds)

    def enter(self, stage: str) -> None:
        """End a stage, and begin this one."""
        now = _now()
        self._seconds[self._stage] += now - self._since
        self._stage, self._since = stage, now
        if STAGES[stage] and STAGES[stage] != self._told:
            self.tell(STAGES[stage])

    def tell(self, text: str) -> None:
        """Show a text in the progress line."""
        self._told, number = text, len(self.strategies) + 1
        self._progress(
            f"{text}, strategy {number}: {self._name}" if self._name and number > 1 else text
        )

    def begin(self, name: str) -> None:
        """Begin a strategy, which records the model first."""
        if any(name == each.name for each in self.strategies):
            name = f"{name}, again"
        self._name, self._told = name, ""
        self.enter("record")
        self._before = dict(self._seconds)

    def end(self, outcome: str) -> None:
        """End the strategy that is under way, and note its outcome."""
        self.enter(SEARCH)

        def took(stages: tuple[str, ...]) -> float:
            return sum(self._seconds[stage] - self._before[stage] for stage in stages)

        parts = took(RECORDING), took(WRITING), took(PROOF)
        self.strategies.append(Strategy(self._name, *parts, outcome))
        self._name = ""

    def finish(self, report: Report) -> None:
        """Put the strategies, and the seconds of all stages so far, into a report."""
        self.enter(SEARCH)
        report.strategies = list(self.strategies)
        report.timings = {name: took for name, took in self._seconds.items() if took}
        report.timings["total"] = sum(self._seconds.values())

    def finish_failed(self, error: HxError, name: str, opset: int) -> None:
        """Do the same for an export that failed, whose error may have no report yet."""
        if error.report is None:
            error.report = Report(name, File(opset))
        self.finish(error.report)


def add_loading(report: Report, seconds: float) -> None:
    """Count the time before an export, if any, as its first stage: imports, packs, the model."""
    if not seconds:
        return
    total = seconds + report.timings.get("total", 0.0)
    report.timings = {"load": seconds, **report.timings, "total": total}


def _now() -> float:
    return time.perf_counter()

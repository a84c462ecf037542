"""Whole run of a comparison: every side exports in turn, then the files run in turn."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hx.bench.child import Child, Failed, Late
from hx.bench.comparison_job import Job

# hx's own timings, by their names here.
PARTS = {"record": "recording", "assemble": "assembly", "passes": "passes", "save": "save"}
# Make glibc allocate large blocks from the system and return them each time. Otherwise it keeps
# much of them, and the same forward takes 30 MB or 60, depending on the state of the heap.
BY_THE_BLOCK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


@dataclass
class ExportTimes:
    """Durations in seconds; None where there is nothing to measure."""

    seconds: float | None = None  # one export: the median of the rounds
    rounds: list[float] = field(default_factory=list)
    first: float | None = None  # the first export in its process, not counted
    parts: dict[str, float] = field(default_factory=dict)  # medians, proof apart
    proof: float | None = None
    proved: float | None = None  # one export with its proof
    process: float | None = None  # from the start of a process to its file, proof included
    forward: float | None = None  # one eager forward, for the floor only


@dataclass
class WrittenFile:
    """Contents of the file that a side wrote; None where it wrote none."""

    nodes: int | None = None
    operators: dict[str, int] = field(default_factory=dict)
    size: int | None = None  # bytes, weights beside it included


@dataclass
class Row:
    """Measurements of one side; None where there is nothing to measure or it failed."""

    side: str
    failed: str = ""  # why it exported nothing
    beyond: float | None = None  # seconds after which it was ended unfinished
    exit_code: int = 0
    times: ExportTimes = field(default_factory=ExportTimes)
    proof_failed: str = ""
    memory: int | None = None  # bytes, above the loaded model
    file: WrittenFile = field(default_factory=WrittenFile)
    load: float | None = None  # loading the file in onnxruntime
    latency: float | None = None  # the median run there
    latency_of_hx: float | None = None  # the median, over turns, of its time divided by hx's
    error: float | None = None  # the largest, against the model
    share: float | None = None  # the same divided by the largest value of its output
    wrong: str = ""  # why the file does not run, or a difference other than in numbers

    def to_dict(self) -> dict[str, Any]:
        """Return all fields side by side."""
        own = asdict(self)
        return {**own.pop("times"), **own.pop("file"), **own}


@dataclass
class Result:
    job: Job
    rows: list[Row]

    def __getitem__(self, side: str) -> Row:
        return next(row for row in self.rows if row.side == side)

    @property
    def least(self) -> float | None:
        """Seconds of what an export with a proof has to do: write, and run both sides three times."""
        floor, ours = self["floor"].times, self["hx"]
        parts = (floor.seconds, floor.forward, ours.load, ours.latency)
        if None in parts:
            return None
        write, forward, load, run = (part or 0.0 for part in parts)
        return write + 3 * forward + load + 3 * run

    def to_dict(self) -> dict[str, Any]:
        return {"job": self.job.to_dict(), "sides": [row.to_dict() for row in self.rows]}


def compare(
    job: Job,
    rivals: Iterable[str] = (),
    rounds: int = 5,
    patience: float = 60.0,
    limit: float = 0.0,
    tell: Callable[[str], None] = lambda stage: None,
) -> Result:
    """Measure floor, hx and rivals.

    A side whose rounds took more than `patience` seconds in all skips the rest; a rival that takes
    more than `limit` seconds for one export (0: no limit) is ended. An error is raised if the model
    itself cannot be loaded or run; a side that fails becomes a row.
    """
    with tempfile.TemporaryDirectory(prefix="hx-bench-") as folder:
        rows = [Row(side) for side in ("floor", "hx", *rivals)]
        run = _Run(job, rows, Path(folder), limit, tell)
        try:
            run.weigh()
            run.load()
            run.export(rounds, patience)
            run.look()
            run.judge()
            run.prove()
            run.whole()
        finally:
            for child in run.children.values():
                child.close()
    return Result(job, run.rows)


class _Run:
    def __init__(
        self, job: Job, rows: list[Row], folder: Path, limit: float, tell: Callable[[str], None]
    ) -> None:
        self.job, self.rows, self.folder, self.limit, self.tell = job, rows, folder, limit, tell
        self.children: dict[str, Child] = {}

    def weigh(self) -> None:
        """Measure the memory that each side takes, in a process that does nothing else."""
        for row in self.rows:
            self.tell(f"{row.side}: memory")
            self._start(row, **BY_THE_BLOCK)
            self._loaded(row)
            row.memory = self._ask(row, "memory").get("memory")
            self.children.pop(row.side).close()

    def load(self) -> None:
        """Load the model in a process for each side, all at once; then time first exports."""
        self.tell("loading the model")
        rows = [row for row in self.rows if not row.failed]
        for row in rows:
            self._start(row)
        for row in rows:
            self._loaded(row)
        for row in rows:
            self.tell(f"{row.side}: first export")
            row.times.first = self._ask(row, "first").get("seconds")

    def _start(self, row: Row, **env: str) -> None:
        child = self.children[row.side] = Child(self.folder / row.side, self.job.threads, **env)
        child.send("load", side=row.side, job=self.job.to_dict(), folder=str(child.folder))

    def _loaded(self, row: Row) -> None:
        if row.side == "floor":
            self.children[row.side].answer()  # an error of the model itself belongs to no row
        else:
            self._note(row, self.children[row.side].answer)

    def export(self, rounds: int, patience: float) -> None:
        """Run the rounds: each side once, in turn."""
        parts: list[dict[str, float]] = []
        forwards: list[float] = []
        for turn in range(rounds):
            for row in self.rows:
                if row.failed or sum(row.times.rounds) > patience:
                    continue
                self.tell(f"{row.side}: round {turn + 1} of {rounds}")
                reply = self._ask(row, "seconds")
                if row.failed:
                    continue
                row.times.rounds.append(reply["seconds"])
                row.times.seconds = statistics.median(row.times.rounds)
                if row.side == "hx":
                    parts.append(reply["parts"])
                    row.times.parts = {
                        name: statistics.median(each.get(key, 0.0) for each in parts)
                        for key, name in PARTS.items()
                    }
                if row.side == "floor":
                    forwards.append(self._ask(row, "forward")["seconds"])
                    row.times.forward = statistics.median(forwards)

    def look(self) -> None:
        """Measure the files that the last round wrote: size, nodes and operators."""
        for row in self.rows:
            if row.side == "floor":
                row.file.size = (self.folder / "floor" / "weights").stat().st_size
            elif found := self._ask(row, "size"):
                row.file.size, row.file.nodes, row.file.operators = (
                    found["size"], found["nodes"], found["operators"],
                )  # fmt: skip

    def judge(self) -> None:
        """Measure errors and latencies of the files, which take turns in one process."""
        rows = [row for row in self.rows if row.side != "floor" and not row.failed]
        for side in [side for side in self.children if side != "hx"]:
            self.children.pop(side).close()  # frees their memory
        self.tell("running the files in onnxruntime")
        found = self._judged(rows)
        ours = found.get("hx", {}).get("turns")
        for row in rows:
            each = found[row.side]
            row.wrong = each.get("refused") or each.get("mismatch") or ""
            row.load, row.latency = each.get("load"), each.get("latency")
            row.error, row.share = each.get("error"), each.get("share")
            if ours and each.get("turns"):
                row.latency_of_hx = statistics.median(a / b for a, b in zip(each["turns"], ours))

    def prove(self) -> None:
        row = next(row for row in self.rows if row.side == "hx")
        if not row.failed:
            self.tell("hx: proof")
            try:
                reply = self.children["hx"].ask("proof")
                row.times.proof, row.times.proved = reply["seconds"], reply["proved"]
            except Failed as problem:
                row.proof_failed, row.exit_code = problem.what, problem.exit_code

    def whole(self) -> None:
        """Measure, for each side, a new process, from its start until its file is there.

        It imports the libraries, loads the model and exports it; hx also proves the file. hx's
        loader counts for hx alone. No other process is left by then.
        """
        for child in self.children.values():
            child.close()
        self.children.clear()
        for row in self.rows:
            if row.failed or row.proof_failed:
                continue
            self.tell(f"{row.side}: whole process")
            limit = 0.0 if row.side in ("floor", "hx") else self.limit
            start = time.perf_counter()
            child = Child(self.folder / row.side, self.job.threads)
            with contextlib.suppress(Failed):  # it exported before: only this figure is missing
                what = {"side": row.side, "job": self.job.to_dict(), "folder": str(child.folder)}
                apart = child.ask("whole", limit, **what)["not_its_own"]
                row.times.process = time.perf_counter() - start - apart
            child.close()

    def _judged(self, rows: list[Row]) -> dict[str, dict[str, Any]]:
        """Judge files, by side; if one crashes the process, judge each in a process of its own."""
        folders = {row.side: str(self.folder / row.side) for row in rows}
        child = self.children["judge"] = Child(self.folder / "judge", self.job.threads)
        try:
            return child.ask("judge", folders=folders, threads=self.job.threads)
        except Failed as problem:
            if len(rows) == 1:
                return {rows[0].side: {"refused": f"onnxruntime: {problem.what}"}}
        finally:
            self.children.pop("judge").close()
        return {side: each for row in rows for side, each in self._judged([row]).items()}

    def _ask(self, row: Row, do: str) -> dict[str, Any]:
        limit = 0.0 if row.side in ("floor", "hx") else self.limit
        return self._note(row, lambda: self.children[row.side].ask(do, limit))

    def _note(self, row: Row, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the answer of the row's side, or nothing and record the reason in the row."""
        if row.failed:
            return {}
        try:
            return ask()
        except Failed as problem:
            row.failed, row.exit_code = problem.what, problem.exit_code
            row.beyond = self.limit if isinstance(problem, Late) else None
            return {}

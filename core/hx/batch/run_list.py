"""The models of a list, exported by an engine: what is done already stays, the rest are jobs."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hx.batch import coordinator
from hx.batch.engines import Executor
from hx.batch.job import Answer, Job, software
from hx.batch.local_engine import LOCAL
from hx.batch.manifest import Manifest, fingerprint, set_up
from hx.batch.models_list import Entry
from hx.batch.results import Result
from hx.contributions import EngineRequest


@dataclass(frozen=True)
class Plan:
    """How a list is run."""

    listed: Path
    module: str  # the fork server that exports
    executor: Executor = LOCAL
    address: str = ""
    jobs: int = 1
    again: bool = False


def run(
    entries: Sequence[Entry],
    plan: Plan,
    tell: Callable[[Result], None],
    stopped: Callable[[], bool] = lambda: False,
    look: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Return all results, in the order of the list; `tell` gets each one as it arrives.

    Between results, `look` is called to update the progress, and `stopped` to see whether to end.
    """
    manifest = Manifest(plan.listed)
    same = set_up(plan.listed.absolute().parent)
    made_from = {entry.number: fingerprint(entry, same) for entry in entries}
    results: dict[int, Result] = {}

    def finish(result: Result) -> None:
        results[result.entry.number] = result
        tell(result)

    waiting = {}
    for entry in entries:
        report = None if plan.again else manifest.done(entry, made_from[entry.number])
        if report is None:
            waiting[entry.number] = entry
        else:
            finish(Result(entry, "done before", report=report))

    def ended(end: coordinator.Ended) -> None:
        entry = waiting[end.job.number]
        result, read = _result(entry, end)
        if result.state == "ok":
            manifest.add(entry, result.report, made_from[entry.number], read)
        finish(result)

    if waiting:

        def asked() -> bool:
            look()
            return stopped()

        _run(waiting.values(), plan, ended, asked)
    for entry in entries:
        if entry.number not in results:
            finish(Result(entry, "not started", 130))
    return [results[entry.number] for entry in entries]


def _run(
    entries: Any,
    plan: Plan,
    ended: Callable[[coordinator.Ended], None],
    stopped: Callable[[], bool],
) -> None:
    shared = plan.listed.absolute().with_name(f".{plan.listed.name}.runs")
    with coordinator.leases(shared) as folder:
        jobs = [_job(entry, plan, folder) for entry in entries]
        limits = [job.limit for job in jobs]
        longest = None if None in limits else max(each for each in limits if each is not None)
        engine = plan.executor.start(EngineRequest(plan.address, plan.jobs, folder, longest))
        try:
            if plan.executor is not LOCAL:
                probe = Job(**{**vars(jobs[0]), "files": (), "lease": str(folder / "probe")})
                coordinator.check(engine, plan.executor.name, probe, stopped)
            coordinator.run(jobs, engine, ended, plan.executor.retries, stopped)
        finally:
            engine.close()


def _job(entry: Entry, plan: Plan, leases: Path) -> Job:
    words = ["export", entry.spec, "-o", str(entry.output), *entry.words, "--json", "--quiet"]
    seen = [entry.output.parent, *(Path(path) for _, path in entry.sources)]
    environment = {name: value for name, value in os.environ.items() if name.startswith("HX_")}
    if plan.executor is LOCAL and plan.jobs > 1:  # or each would take all cores
        threads = str(max(1, _cores() // plan.jobs))
        environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", threads)
    return Job(
        entry.number,
        plan.module,
        {"words": words},
        str(entry.folder),
        str(leases / str(entry.number)),
        software(),
        tuple(str(path) for path in seen if path.exists()),
        entry.limit,
        environment,
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _result(entry: Entry, end: coordinator.Ended) -> tuple[Result, Mapping[str, Any]]:
    """The row of a job that has ended, and the files that it was made from."""
    answer = end.answer
    if answer is None:
        if end.lost:
            tries = f" ({len(end.starts)} tries)" if len(end.starts) > 1 else ""
            why = f"its worker was lost{tries}: {end.lost}"
            return Result(entry, "failed", 1, why=why, starts=end.starts), {}
        state = "stopped" if end.starts else "not started"
        return Result(entry, state, 130, starts=end.starts), {}
    try:
        said = json.loads(answer.data.get("said") or "{}")
    except ValueError:  # it was killed as it wrote
        said = {}
    if answer.code == 0 and said.get("ok"):
        read = dict(answer.data["read"])
        if answer.host == socket.gethostname():  # other machines have installed their own
            read |= answer.data["installed"]
        report = said["report"]
        return Result(entry, "ok", 0, answer.seconds, report, starts=end.starts), read
    result = Result(
        entry,
        "failed",
        answer.code if 0 < answer.code < 128 else 1,
        answer.seconds,
        error=said.get("error") or {},
        missing=tuple(said.get("missing") or ()),
        why=_why(entry, answer, said, len(end.starts)),
        starts=end.starts,
    )
    return result, {}


def _why(entry: Entry, answer: Answer, said: Mapping[str, Any], tries: int) -> str:
    often = f", {tries} times" if tries > 1 else ""
    if answer.ended == "unfit":
        return answer.errors
    if answer.ended == "lost":
        return f"{answer.errors}{often}"
    if answer.ended == "limit":
        return f"it took longer than its limit of {entry.limit:g} s"
    if answer.code < 0:
        name = signal.Signals(-answer.code).name
        return f"it was ended by signal {-answer.code} ({name}){often}"
    error = said.get("error") or {}
    return error.get("what") or (answer.errors.splitlines() or ["it ended without a word"])[-1]

"""The engine `slurm`: functions run in jobs of Slurm, several in each, because a job costs seconds.

A job writes each result as it comes, to a folder that all nodes share. If a job ends early, the
function that it was running is lost, and those behind it go to the next job.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import shutil
import signal
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import submitit

from hx.contributions import EngineRequest, WorkerLost
from hx.errors import UsageError

LOOK = 0.2  # seconds between two looks at the results
CHUNK = 25  # functions for a job, at most
MINUTES = 24 * 60  # for a job without a limit; SBATCH_TIMELIMIT overrides it


@dataclass
class Task:
    """One function that was submitted."""

    number: int
    function: Callable[[Any], Any]
    argument: Any
    future: Future[Any]


@dataclass
class Running:
    """A job of Slurm, and those of its tasks that have no result yet, in their order."""

    job: submitit.Job[None]
    tasks: list[Task]


def run_tasks(tasks: list[tuple[int, Callable[[Any], Any], Any]], folder: Path) -> None:
    """Run on a node: each result becomes a file, whole or not at all."""
    for number, function, argument in tasks:
        try:
            outcome = True, function(argument)
        except Exception as problem:
            outcome = False, problem
        new = folder / f"{number}.new"
        new.write_bytes(pickle.dumps(outcome))
        new.replace(folder / str(number))


class SlurmEngine:
    """At most so many jobs at a time as are asked for. Other settings are those of sbatch: SBATCH_*."""

    def __init__(self, request: EngineRequest) -> None:
        cluster = request.address or "slurm"
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise UsageError(
                "there is no Slurm on this machine: no sbatch",
                hint="--on slurm:local runs the same jobs as processes of this machine",
            )
        self._results = request.folder / "results"
        self._results.mkdir(parents=True)
        try:
            self._executor = submitit.AutoExecutor(request.folder / "jobs", cluster=cluster)
        except (RuntimeError, ValueError) as problem:
            raise UsageError(f"--on slurm:{cluster}: {problem}") from None
        minutes = MINUTES if request.limit is None else math.ceil(CHUNK * (request.limit + 60) / 60)
        self._executor.update_parameters(timeout_min=minutes, name="hx-export")
        self._jobs = request.jobs
        self._waiting: deque[Task] = deque()
        self._running: list[Running] = []
        self._count = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self._count += 1
            self._waiting.append(Task(self._count, function, argument, future))
        return future

    def cancel(self, future: Future[Any]) -> None:
        future.cancel()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for running in self._running:
            running.job.cancel()

    def _watch(self) -> None:
        # Processes of this machine do not hear the Ctrl-C of the terminal: hx ends what they run.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not self._closed.wait(LOOK):
            with self._lock:
                for running in list(self._running):
                    ended = running.job.done()
                    self._take_results(running)
                    if ended or not running.tasks:
                        self._running.remove(running)
                        self._give_back(running)
                while self._waiting and len(self._running) < self._jobs:
                    self._start()

    def _take_results(self, running: Running) -> None:
        for task in list(running.tasks):
            file = self._results / str(task.number)
            if not file.exists():
                return
            right, result = pickle.loads(file.read_bytes())
            file.unlink()
            running.tasks.remove(task)
            if task.future.set_running_or_notify_cancel():
                (task.future.set_result if right else task.future.set_exception)(result)

    def _give_back(self, running: Running) -> None:
        """The first task without a result was running, and is lost; the others wait again."""
        if running.tasks:
            lost, *rest = running.tasks
            self._waiting.extendleft(reversed(rest))
            if lost.future.set_running_or_notify_cancel():
                lost.future.set_exception(WorkerLost(_last_words(running.job)))

    def _start(self) -> None:
        share = math.ceil(len(self._waiting) / (self._jobs - len(self._running)))
        tasks = []
        while self._waiting and len(tasks) < min(CHUNK, share):
            task = self._waiting.popleft()
            if not task.future.cancelled():
                tasks.append(task)
        if tasks:
            sent = [(task.number, task.function, task.argument) for task in tasks]
            job = self._executor.submit(run_tasks, sent, self._results)
            self._running.append(Running(job, tasks))


def _last_words(job: submitit.Job[None]) -> str:
    """The last line that the job wrote, or its state."""
    with contextlib.suppress(OSError):
        lines = (job.stderr() or "").strip().splitlines()
        errors = [line for line in lines if "Error" in line]
        if errors:
            return f"job {job.job_id}: {errors[-1].strip()}"
    return f"job {job.job_id} ended: {job.state.lower()}"

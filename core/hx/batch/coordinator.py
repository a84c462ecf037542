"""Submit jobs to an engine, run again what was lost, and end each job exactly once.

A job may run while its lease is there: a file in a folder that the workers share. Each start adds a
line to it, so retries are known whoever made them, the engine or this file. A job whose lease is
removed ends, wherever it runs; a new run of a list removes the leases that an earlier one left.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass
from pathlib import Path

from hx.batch.fork_server import GRACE_SECONDS
from hx.batch.job import Answer, Job
from hx.batch.timer import Timer
from hx.batch.worker import carry_out, unfitness
from hx.budget import BUDGET
from hx.contributions import Engine
from hx.errors import UsageError
from hx.text import first_line


@dataclass(frozen=True)
class Ended:
    """The end of one job. Without an answer, it was not started, stopped, or lost."""

    job: Job
    answer: Answer | None = None
    lost: str = ""  # why there is no answer, although nobody stopped it
    starts: tuple[str, ...] = ()  # `HOST PID` of each worker that has started it


@contextlib.contextmanager
def leases(shared: Path) -> Iterator[Path]:
    """A new folder for the leases of one run, in place of those that earlier runs have left."""
    shutil.rmtree(shared, ignore_errors=True)
    folder = shared / uuid.uuid4().hex
    try:
        folder.mkdir(parents=True)
    except OSError as problem:
        raise UsageError(
            f"{shared.parent} cannot be written to: {(problem.strerror or '').lower()}",
            hint="the folder of the list holds what the workers share",
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # there is another run
            shared.rmdir()


def check(engine: Engine, name: str, job: Job, stopped: Callable[[], bool]) -> None:
    """Raise a UsageError if the first worker that answers cannot run jobs like this one."""
    Path(job.lease).touch()
    future = _submitted(engine, unfitness, job)
    while not wait([future], 0.05).done:
        if stopped():
            engine.cancel(future)
            return
    try:
        problem = future.result()
    except (Exception, CancelledError) as raised:  # whatever the engine makes of it
        raise _broken(name, raised, job.software["hx"]) from None
    Path(job.lease).unlink(missing_ok=True)
    if problem:
        raise UsageError(f"{name}: {problem}")


def _broken(name: str, problem: BaseException, version: str) -> UsageError:
    text = f"{type(problem).__name__}: {problem}"
    if "No module named 'hx" in text:
        return UsageError(
            f"the workers of {name} have no hx",
            hint=f"pip install hx=={version} where they run, and start them again",
        )
    return UsageError(f"the engine {name} failed to run a test job: {first_line(problem)}")


def run(
    jobs: Sequence[Job],
    engine: Engine,
    finish: Callable[[Ended], None],
    retries: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Run all jobs, and call `finish` once for each, as they end.

    With `retries`, the engine itself runs again what a lost worker ran.
    """
    done: queue.SimpleQueue[Future[Answer]] = queue.SimpleQueue()
    pending: dict[Future[Answer], Job] = {}
    losses: Counter[int] = Counter()

    def submit(job: Job) -> None:
        future = _submitted(engine, carry_out, job)
        pending[future] = job
        future.add_done_callback(done.put)

    for job in jobs:
        Path(job.lease).touch()
        submit(job)
    while pending and not stopped():
        try:
            future = done.get(timeout=0.05)
        except queue.Empty:
            continue
        job = pending.pop(future)
        answer, lost = _outcome(future)
        losses[job.number] += 1
        again = _is_killed(answer) if answer is not None else not retries
        if again and max(losses[job.number], len(_starts(job))) < BUDGET.runs.starts_of_a_job:
            submit(job)
        else:
            finish(Ended(job, answer, lost, _starts(job)))
            Path(job.lease).unlink(missing_ok=True)
    if pending:
        _stop(engine, pending, finish)


def _submitted(engine: Engine, function: Callable[[Job], object], job: Job) -> Future:
    try:
        return engine.submit(function, job)
    except Exception as problem:  # the engine is gone: so is the job
        future: Future = Future()
        future.set_exception(problem)
        return future


def _outcome(future: Future[Answer]) -> tuple[Answer | None, str]:
    try:
        return future.result(), ""
    except (Exception, CancelledError) as problem:  # whatever an engine raises for a lost worker
        return None, first_line(problem)


def _is_killed(answer: Answer) -> bool:
    """The export, or the process that it was forked from, was killed from outside."""
    return answer.ended == "lost" or (not answer.ended and answer.code == -signal.SIGKILL)


def _starts(job: Job) -> tuple[str, ...]:
    try:
        return tuple(Path(job.lease).read_text().splitlines())
    except OSError:
        return ()


def _stop(
    engine: Engine, pending: dict[Future[Answer], Job], finish: Callable[[Ended], None]
) -> None:
    """End what runs, do not start the rest, and wait until all is in order."""
    starts = {job.number: _starts(job) for job in pending.values()}
    for future, job in pending.items():
        Path(job.lease).unlink(missing_ok=True)
        if not starts[job.number]:  # the others see that their lease is gone
            engine.cancel(future)
    timer = Timer()
    for future, job in pending.items():
        if starts[job.number]:
            with contextlib.suppress(Exception, CancelledError):
                future.result(max(0.0, 2 * GRACE_SECONDS - timer.seconds))
        if not future.done():
            engine.cancel(future)
        answer = _outcome(future)[0] if future.done() else None
        through = answer is not None and not answer.ended
        finish(Ended(job, answer if through else None, "", starts[job.number]))

"""The engine `local`: exports in processes of this machine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from hx.batch import worker
from hx.contributions import Argument, EngineRequest, Executor, Result


class LocalEngine:
    """One thread for each job at a time; a job runs in a process that its thread waits for."""

    def __init__(self, request: EngineRequest) -> None:
        self._threads = ThreadPoolExecutor(request.jobs)

    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        return self._threads.submit(function, argument)

    def cancel(self, future: Future[Any]) -> None:
        future.cancel()

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        worker.close_idle()


LOCAL = Executor("local", LocalEngine, doc="processes of this machine")

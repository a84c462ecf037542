"""The engine `dask`: each function is a task of dask.distributed.

The scheduler runs a task again if its worker dies, as often as `distributed.scheduler.allowed-
failures` says.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import dask
from distributed import Client, LocalCluster

import hx
from hx.contributions import EngineRequest
from hx.errors import UsageError

PATIENCE = float(
    os.environ.get("HX_DASK_PATIENCE", "15")
)  # seconds for a scheduler to answer, and a worker


def _on_this_machine(workers: int) -> LocalCluster:
    """A cluster whose processes do not hear the Ctrl-C of the terminal: hx ends what they run."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class DaskEngine:
    """A running cluster, found by its address or dask's own settings; else one on this machine."""

    def __init__(self, request: EngineRequest) -> None:
        address = request.address or dask.config.get("scheduler-address", None)
        self._cluster: LocalCluster | None = None
        if not address:
            self._cluster = _on_this_machine(request.jobs)
        try:
            self._client = Client(address or self._cluster, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as problem:
            raise UsageError(
                f"no dask scheduler answers at {address}",
                why=str(problem).strip().partition("\n")[0],
                hint="dask scheduler starts one; without an address, hx starts one for the list",
            ) from None
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except (TimeoutError, asyncio.TimeoutError):  # one class from Python 3.11 on
            self._client.close()
            raise UsageError(
                f"the dask scheduler at {address} has no workers", hint=f"dask worker {address}"
            ) from None
        self._require_hx()
        self._executor = self._client.get_executor(pure=False)

    def _require_hx(self) -> None:
        """Raise if a worker cannot import hx: it would end as it reads its first task."""
        answers = self._client.run(exec, "import hx.batch.worker", on_error="return")
        for worker, problem in answers.items():
            if problem is not None:
                self.close()
                raise UsageError(
                    f"the dask worker at {worker} has no hx: {problem}",
                    hint=f"pip install hx=={hx.__version__} where it runs, and start it again",
                )

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        return self._executor.submit(function, argument)

    def cancel(self, future: Future[Any]) -> None:
        future.cancel()

    def close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

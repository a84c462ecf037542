"""The engine `ray`: each function is a Ray task, which Ray runs again if its worker dies."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import ray

from hx.contributions import EngineRequest
from hx.errors import UsageError

PATIENCE = 15  # seconds for a cluster to answer
RETRIES = 2  # times that Ray runs a task again whose worker or node was lost


class RayEngine:
    """A running cluster, found by its address or RAY_ADDRESS; else a new one on this machine."""

    def __init__(self, request: EngineRequest) -> None:
        self._tasks: dict[Future[Any], ray.ObjectRef] = {}
        address = request.address or os.environ.get("RAY_ADDRESS", "")
        if not address:  # a cluster of our own reports to nobody
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        own: dict[str, Any] = {"num_cpus": request.jobs, "include_dashboard": False}
        try:
            _require_listener(address)  # Ray itself would try for minutes
            ray.init(
                address or "local",
                logging_level=logging.ERROR,
                log_to_driver=False,
                **({} if address else own),
            )
        except (ConnectionError, OSError, RuntimeError, ValueError) as problem:
            first = str(problem).strip().partition("\n")[0]
            where = f"at {address}" if address else "on this machine"
            raise UsageError(
                f"no Ray cluster answers {where}",
                why=first,
                hint="ray start --head starts one; without an address, hx starts one for the list",
            ) from None

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(function).remote(argument)
        future = task.future()
        self._tasks[future] = task
        future.add_done_callback(lambda done: self._tasks.pop(done, None))
        return future

    def cancel(self, future: Future[Any]) -> None:
        task = self._tasks.get(future)
        if task is not None:
            ray.cancel(task)

    def close(self) -> None:
        ray.shutdown()


def _require_listener(address: str) -> None:
    """Raise an OSError if nothing listens at HOST:PORT."""
    host, colon, port = address.rpartition("://")[2].partition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), PATIENCE).close()

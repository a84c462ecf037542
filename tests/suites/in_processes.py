"""Many measurements, each in a process of its own, two at a time: jobs of hx's local engine."""

from __future__ import annotations

import importlib
import os
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hx.batch import coordinator, fork_server
from hx.batch.job import Job, software
from hx.batch.local_engine import LocalEngine
from hx.cli.warm_export import warm
from hx.contributions import EngineRequest

ROOT = Path(__file__).parents[2]
SUITES = ("torch.testing._internal.common_methods_invocations",
          "torch.testing._internal.common_modules", "tests.suites.attempt")  # fmt: skip


def run(
    function: str,
    calls: Sequence[list[Any]],
    tell: Callable[[int, dict[str, Any]], None],
    failed: Callable[[int, str], dict[str, Any]],
    seconds: float | None = None,
    jobs: int = 2,
) -> list[dict[str, Any]]:
    """Call `module:function` in processes; return a result for each list of arguments, in order.

    `tell` gets the number of a call and its result as it comes. `failed` makes the result of one
    that killed its process or took too long.
    """
    results: dict[int, dict[str, Any]] = {}

    def ended(end: coordinator.Ended) -> None:
        number, answer = end.job.number, end.answer
        if answer is not None and answer.data and not answer.ended:
            result = dict(answer.data["result"])
        elif answer is not None and answer.ended == "limit":
            result = failed(number, f"took more than {seconds:g} s")
        else:
            result = failed(number, f"killed the process: {end.lost or _last(answer)}")
        results[number] = result
        tell(number, result)

    with (
        tempfile.TemporaryDirectory(prefix="hx-suite-") as temporary,
        coordinator.leases(Path(temporary, "runs")) as leases,
    ):
        engine = LocalEngine(EngineRequest(jobs=jobs))
        try:
            made = [
                Job(
                    number,
                    "tests.suites.in_processes",
                    {"function": function, "arguments": call},
                    str(ROOT),
                    str(leases / str(number)),
                    software(),
                    limit=seconds,
                    environment={"OMP_NUM_THREADS": "1", "PYTHONPATH": _path()},
                )
                for number, call in enumerate(calls)
            ]
            coordinator.run(made, engine, ended)
        finally:
            engine.close()
    return [results[number] for number in range(len(calls))]


def _path() -> str:
    own = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, [own, str(ROOT / "tests" / "shared")]))


def _last(answer: Any) -> str:
    if answer is None:
        return ""
    if answer.code < 0:
        return signal.Signals(-answer.code).name
    return (answer.errors.splitlines() or [f"exit code {answer.code}"])[-1]


def call(request: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own: call the function."""
    import torch

    torch.set_num_threads(1)
    module, _, name = request["function"].partition(":")
    return {"result": getattr(importlib.import_module(module), name)(*request["arguments"])}


def export_once() -> None:
    """Make what a process makes for its first export. One thread: no fork has the others."""
    import torch

    from . import attempt

    torch.set_num_threads(1)
    attempt.with_hx(torch.nn.ReLU(), (torch.ones(1),), {})


if __name__ == "__main__":
    for suite in SUITES:
        importlib.import_module(suite)
    export_once()
    warm()
    fork_server.serve(call)

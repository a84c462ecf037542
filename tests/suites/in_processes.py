"""Many measurements, in processes of their own, two at a time: jobs of hx's local engine."""

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
    together: int = 1,
) -> list[dict[str, Any]]:
    """Call `module:function` in processes; return a result for each list of arguments, in order.

    `tell` gets the number of a call and its result as it comes. `failed` makes the result of one
    that killed its process or took too long. Each process makes a few calls, `together`; if it does
    not end well, each of these is made again, in a process of its own.
    """
    results: dict[int, dict[str, Any]] = {}
    groups = [range(len(calls))[i : i + together] for i in range(0, len(calls), together)]

    def note(number: int, result: dict[str, Any]) -> None:
        results[number] = result
        tell(number, result)

    def ended(end: coordinator.Ended) -> None:
        group, answer = groups[end.job.number], end.answer
        if answer is not None and answer.data and not answer.ended:
            for number, result in zip(group, answer.data["results"]):
                note(number, dict(result))
        elif len(group) == 1 and answer is not None and answer.ended == "limit":
            note(group[0], failed(group[0], f"took more than {seconds:g} s"))
        elif len(group) == 1:
            note(group[0], failed(group[0], f"killed the process: {end.lost or _last(answer)}"))

    with (
        tempfile.TemporaryDirectory(prefix="hx-suite-") as temporary,
        coordinator.leases(Path(temporary, "runs")) as leases,
    ):
        engine = LocalEngine(EngineRequest(jobs=jobs))
        try:
            while groups:
                made = [
                    Job(
                        place,
                        "tests.suites.in_processes",
                        {"function": function, "calls": [calls[number] for number in group]},
                        str(ROOT),
                        str(leases / f"{group[0]} {len(group)}"),
                        software(),
                        limit=seconds and seconds * len(group),
                        environment={"OMP_NUM_THREADS": "1", "PYTHONPATH": _path()},
                    )
                    for place, group in enumerate(groups)
                ]
                coordinator.run(made, engine, ended)
                alone = (range(n, n + 1) for n in range(len(calls)) if n not in results)
                groups = [*alone]
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
    """In a process of its own: call the function with each list of arguments."""
    import torch

    torch.set_num_threads(1)
    module, _, name = request["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    return {"results": [function(*arguments) for arguments in request["calls"]]}


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

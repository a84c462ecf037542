"""Throughput of a list of small models, on each engine, with one worker and with two.

    python tests/bench/many_models.py --models 1000
    python tests/bench/many_models.py --engines ray,dask --workers 2 --restart

Engines take turns. With --restart, the command is ended by kill -9 in the middle, and started again.
Each run checks that every model has one row and one whole file, and that nothing else is left.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from hx.testing import engine_kit


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(engine: str, workers: int, models: int, restart: bool) -> str:
    words = ("--quiet", "--on", engine, "--jobs", str(workers))
    with tempfile.TemporaryDirectory(prefix="hx-many-") as temporary:
        folder = Path(temporary)
        engine_kit.write_list(folder, engine_kit.small(models))
        started, used = time.perf_counter(), cpu_seconds()
        process = engine_kit.start(folder, *words)
        if restart:
            engine_kit.wait_for(folder, "small_*.onnx", models // 2)
            process.kill()
            process.communicate()
            process = engine_kit.start(folder, *words)
        found = engine_kit.rows(process)
        seconds, used = time.perf_counter() - started, cpu_seconds() - used
        engine_kit.require_order(folder, found)
    states = [row["state"] for row in found.values()]
    right = states.count("ok") + states.count("done before")
    kept = states.count("done before")
    again = sum(row["tries"] > 1 for row in found.values())
    cells = (engine, workers, f"{seconds:.0f}", f"{models / seconds:.2f}", f"{used:.0f}",
             models - right, kept, again)  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--engines", default="local,ray,dask,slurm:local")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--restart", action="store_true")
    options = parser.parse_args()
    print("| engine | workers | seconds | models/s | CPU s | lost | done before | tried again |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for workers in map(int, options.workers.split(",")):
        for engine in options.engines.split(","):
            print(measure(engine, workers, options.models, options.restart), flush=True)


if __name__ == "__main__":
    main()

"""`python -m hx.bench.one_side`: one side in its own process.

Reads one JSON request a line on stdin, and answers each with one line on the original stdout;
anything that libraries print goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# Modules of hx that every side loads its model with.
LOADER = ("hx.inputs.given", "hx.inputs.spec", "hx.weights.load_weights", "hx.recording.prepare")


class Worker:
    """Side in its process; a request names one of its methods."""

    def load(self, side: str, job: dict[str, Any], folder: str) -> dict[str, Any]:
        """Load the model, run it once, and leave its inputs and outputs in the folder."""
        self._load(side, job, folder)
        self._run_once()
        return {}

    def whole(self, side: str, job: dict[str, Any], folder: str) -> dict[str, Any]:
        """Load the model and export it, hx with its proof: all that a command does.

        Of the other sides, the answer has the seconds of hx's own loader, which is not theirs.
        """
        import torch  # noqa: F401  # each side needs it

        from hx.bench import sides
        from hx.bench.comparison_job import Job

        start = time.perf_counter()
        for name in LOADER:
            importlib.import_module(name)
        registry = Job(**job).registry()
        seconds = time.perf_counter() - start
        self._load(side, job, folder, registry)
        if side == "hx":
            sides.hx(self.subject, self._path(), verify=True)
            return {"not_its_own": 0.0}
        self.run(self.subject, self._path())
        return {"not_its_own": seconds}

    def _load(self, side: str, job: dict[str, Any], folder: str, registry: Any = None) -> None:
        from hx.bench import sides
        from hx.bench.comparison_job import Job

        self.side, self.folder = side, Path(folder)
        self.run = sides.SIDES[side]
        wanted = Job(**job)
        self.threads(wanted.threads)
        registry = registry or wanted.registry()
        model, call = wanted.load(registry)
        self.subject, self._call = self._subject(model, call, wanted.opset, registry)

    def memory(self) -> dict[str, Any]:
        """Measure the peak memory of the first export, without imports and a first forward."""
        from hx.bench.memory import peak

        self._warm_up()
        path = self._path()
        return {"memory": peak(lambda: self.run(self.subject, path))}

    def first(self) -> dict[str, Any]:
        """Time the first export; imports do not count."""
        from hx.bench.latency import timed

        self._warm_up()
        path = self._path()
        return {"seconds": timed(lambda: self.run(self.subject, path))[1]}

    def seconds(self) -> dict[str, Any]:
        """Time one more export."""
        from hx.bench.latency import timed

        path = self._path()
        self._as_much_memory()
        parts, seconds = timed(lambda: self.run(self.subject, path))
        return {"seconds": seconds, "parts": dict(parts)}

    def forward(self) -> dict[str, Any]:
        """Time one forward of the model itself."""
        import torch

        from hx.bench.latency import timed

        subject = self.subject
        with torch.no_grad():
            _, seconds = timed(lambda: subject.model(*subject.args, **subject.kwargs))
        return {"seconds": seconds}

    def proof(self) -> dict[str, Any]:
        """Time an export with its proof, the second in this process; for hx alone."""
        from hx.bench import sides

        for _ in range(2):
            parts = sides.hx(self.subject, self._path(), verify=True)
        return {"seconds": parts["verify"], "proved": parts["total"]}

    def size(self) -> dict[str, Any]:
        """Return the bytes and the nodes of the file that the last export left."""
        from hx.bench.latency import operators

        found = operators(self.folder / "model.onnx")
        size = sum(p.stat().st_size for p in self.folder.iterdir() if p.suffix != ".pt")
        return {"size": size, "nodes": sum(found.values()), "operators": found}

    def judge(self, folders: dict[str, str], threads: int) -> dict[str, Any]:
        """Measure the error and the speed of the file in each folder."""
        from hx.bench import latency

        self.threads(threads)
        return latency.judge({side: Path(folder) for side, folder in folders.items()}, threads)

    @staticmethod
    def threads(count: int) -> None:
        import torch

        if count:
            torch.set_num_threads(count)

    def _path(self) -> Path:
        """Return a path in the folder, emptied so that an export replaces and compares nothing."""
        for path in self.folder.iterdir():
            if path.suffix != ".pt":
                path.unlink()
        return self.folder / "model.onnx"

    def _as_much_memory(self) -> None:
        """Allocate the memory of a forward and of the weights' files, and free it.

        A virtual machine may have returned memory to its host during the others' turns; the next
        allocation then waits for a fifth of a second per 100 MB. Each core keeps the memory freed
        on it, and an export may write on another core than it freed on, so two threads do this.
        """
        from hx.bench import sides

        self.forward()

        def written(path: Path) -> None:
            sides.write_weights(self.subject.model, path)
            path.unlink()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(written, [self.folder / "memory1", self.folder / "memory2"]))

    def _subject(self, model: Any, call: Any, opset: int, registry: Any) -> tuple[Any, Any]:
        """Return what each side exports, and the call with its named tensors."""
        from hx.bench.sides import Subject
        from hx.ir import dynamic_axes
        from hx.recording.prepare import prepare

        made, _ = prepare(model, call.args, call.kwargs, None, call.dynamic, dynamic_axes.axes)
        names = {id(tensor): name for name, tensor in made.call.tensors.items()}
        subject = Subject(model, call.args, call.kwargs, made.sizes, names, opset, registry)
        return subject, made.call

    def _run_once(self) -> None:
        """Run the model, and leave its inputs and outputs in the folder."""
        import torch

        from hx.packs import nesting
        from hx.recording.prepare import arguments

        tensors = self._call.tensors
        with torch.no_grad():
            args, kwargs = arguments(self._call, {k: t.clone() for k, t in tensors.items()})
            outputs = [
                leaf.clone()
                for _, leaf in nesting.leaves(self._call.model(*args, **kwargs))
                if isinstance(leaf, torch.Tensor)
            ]
        torch.save({"inputs": tensors, "outputs": outputs}, self.folder / "run.pt")

    def _warm_up(self) -> None:
        """Export a small model, so that a side's imports and first run do not count as memory."""
        import torch

        from hx.bench.sides import Subject

        nn, x = torch.nn, torch.ones(2, 3, 8, 8)
        layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
        small = nn.Sequential(*layers).eval()
        names = {id(x): "input"}
        self.run(
            Subject(small, (x,), {}, {}, names, self.subject.opset, self.subject.registry),
            self._path(),
        )


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        action: Callable[..., dict[str, Any]] = getattr(worker, request.pop("do"))
        try:
            reply = {"ok": True, **action(**request)}
        except Exception as problem:  # an exporter that fails becomes a line of the table
            reply = {"ok": False, **_told(problem)}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _told(problem: BaseException) -> dict[str, Any]:
    """Describe a failure: its first cause in one line, and what the command line needs."""
    from hx.errors import HxError

    if isinstance(problem, HxError):
        return {
            "error": problem.what,
            "text": str(problem),
            "exit_code": problem.exit_code,
            "code": problem.code,
        }
    first = problem
    while (cause := first.__cause__ or first.__context__) is not None:
        first = cause
    if isinstance(first, ModuleNotFoundError) and first.name:
        error = f"{first.name} is not installed: pip install {first.name}"
    else:
        text = next((line.strip() for line in str(first).splitlines() if line.strip()), "")
        error = f"{type(first).__name__}: {text}" if text else type(first).__name__
    return {"error": error, "text": error, "exit_code": 1, "code": "HX100"}


if __name__ == "__main__":
    main()

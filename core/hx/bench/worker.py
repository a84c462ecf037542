"""`python -m hx.bench.worker`: one side in a process of its own.

Reads one request a line (JSON) on stdin, answers each with one line on what was stdout; whatever
libraries print goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any


class Worker:
    """The side, once it is loaded; a request names one of its methods."""

    def load(self, side: str, job: dict[str, Any], folder: str) -> dict[str, Any]:
        """Loads the model, runs it once, and leaves its inputs and outputs in the folder."""
        from hx.bench import sides
        from hx.bench.job import Job

        self.side, self.folder = side, Path(folder)
        self.run = sides.SIDES[side]
        wanted = Job(**job)
        self.threads(wanted.threads)
        registry = wanted.registry()
        model, call = wanted.load(registry)
        self.subject = self._subject(model, call, wanted.opset, registry)
        return {}

    def memory(self) -> dict[str, Any]:
        """The most memory of the first export. Imports, and one forward before it, do not count."""
        from hx.bench.memory import peak

        self._warm_up()
        path = self._path()
        return {"memory": peak(lambda: self.run(self.subject, path))}

    def first(self) -> dict[str, Any]:
        """The first export, timed; imports do not count."""
        self._warm_up()
        path = self._path()
        start = time.perf_counter()
        self.run(self.subject, path)
        return {"seconds": time.perf_counter() - start}

    def seconds(self) -> dict[str, Any]:
        """One more export, timed."""
        path = self._path()
        self._as_much_memory()
        start = time.perf_counter()
        parts = self.run(self.subject, path)
        return {"seconds": time.perf_counter() - start, "parts": dict(parts)}

    def forward(self) -> dict[str, Any]:
        """One forward of the model itself, timed."""
        import torch

        with torch.no_grad():
            start = time.perf_counter()
            self.subject.model(*self.subject.args, **self.subject.kwargs)
        return {"seconds": time.perf_counter() - start}

    def proof(self) -> dict[str, Any]:
        """hx alone: one export with its proof; how long the proof took."""
        from hx.bench import sides

        return {"seconds": sides.hx(self.subject, self._path(), verify=True)["verify"]}

    def size(self) -> dict[str, Any]:
        """The file that the last export left: its bytes, its nodes."""
        from hx.bench.latency import operators

        found = operators(self.folder / "model.onnx")
        size = sum(p.stat().st_size for p in self.folder.iterdir() if p.suffix != ".pt")
        return {"size": size, "nodes": sum(found.values()), "operators": found}

    def judge(self, folders: dict[str, str], threads: int) -> dict[str, Any]:
        """Of each folder: how far the file's outputs are off, and how fast it runs."""
        from hx.bench import latency

        self.threads(threads)
        return latency.judge({side: Path(folder) for side, folder in folders.items()}, threads)

    @staticmethod
    def threads(count: int) -> None:
        import torch

        if count:
            torch.set_num_threads(count)

    def _path(self) -> Path:
        """The folder emptied of the last export, so that nothing is replaced or compared."""
        for path in self.folder.iterdir():
            if path.suffix != ".pt":
                path.unlink()
        return self.folder / "model.onnx"

    def _as_much_memory(self) -> None:
        """Takes what a forward and files of the weights take, and frees it.

        A virtual machine may have given memory back to its host while the others had their turns;
        whoever wants it then waits for a fifth of a second per 100 MB. Each core keeps what was
        freed on it, and an export may write on another than it unlinked on: two threads do it.
        """
        from hx.bench import sides

        self.forward()

        def written(path: Path) -> None:
            sides.write_weights(self.subject.model, path)
            path.unlink()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(written, [self.folder / "memory1", self.folder / "memory2"]))

    def _subject(self, model: Any, call: Any, opset: int, registry: Any) -> Any:
        import torch

        from hx.bench.sides import Subject
        from hx.recording.prepared import prepare
        from hx.sizes import dynamic
        from hx.tensors import structures

        made = prepare(model, call.args, call.kwargs, None, call.dynamic, dynamic.axes)
        with torch.no_grad():
            args, kwargs = made.with_tensors({k: t.clone() for k, t in made.tensors.items()})
            outputs = [
                leaf.clone()
                for _, leaf in structures.leaves(model(*args, **kwargs))
                if isinstance(leaf, torch.Tensor)
            ]
        torch.save({"inputs": made.tensors, "outputs": outputs}, self.folder / "run.pt")
        names = {id(tensor): name for name, tensor in made.tensors.items()}
        return Subject(model, call.args, call.kwargs, made.dynamic, names, opset, registry)

    def _warm_up(self) -> None:
        """Another model's export: what a side imports or first runs is not memory of an export."""
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
        except Exception as problem:  # an exporter that fails is a line of the table
            reply = {"ok": False, **_told(problem)}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _told(problem: BaseException) -> dict[str, Any]:
    """What went wrong: the first cause of it, in a line, and what the command line needs."""
    from hx.errors import HxError

    if isinstance(problem, HxError):
        return {"error": problem.what, "text": str(problem), "exit_code": problem.exit_code}
    first = problem
    while (cause := first.__cause__ or first.__context__) is not None:
        first = cause
    if isinstance(first, ModuleNotFoundError) and first.name:
        error = f"{first.name} is not installed: pip install {first.name}"
    else:
        text = next((line.strip() for line in str(first).splitlines() if line.strip()), "")
        error = f"{type(first).__name__}: {text}" if text else type(first).__name__
    return {"error": error, "text": error, "exit_code": 1}


if __name__ == "__main__":
    main()

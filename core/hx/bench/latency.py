"""Speed of files in onnxruntime, and their error against the model.

Sessions use onnxruntime's defaults and take turns, so a slow machine slows all of them alike. A
turn of a fast graph is several runs, because a single one is too short for the clock.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hx.graph.file_nodes import all_nodes, operator_of
from hx.runtime import Refused, from_ort, options, to_ort

T = TypeVar("T")

TOTAL_SECONDS = 12.0  # of turns, for all files together
MIN_TURNS, MAX_TURNS = 7, 200  # turns
SECONDS_PER_TURN = 0.005  # seconds, at least


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """Return what a function returns, and the seconds that it took."""
    start = time.perf_counter()
    result = action()
    return result, time.perf_counter() - start


def operators(path: Path) -> dict[str, int]:
    """Count the nodes of each operator in a file, bodies and functions included."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    graphs = (model.graph, *model.functions)
    found = Counter(operator_of(node) for graph in graphs for node in all_nodes(graph))
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def judge(folders: dict[str, Path], threads: int) -> dict[str, Any]:
    """Measure, for each side, the largest error and the seconds of a run, turn by turn."""
    found: dict[str, dict[str, Any]] = {side: {} for side in folders}
    ready: dict[str, Any] = {}
    for side, folder in folders.items():
        try:
            run, outputs, expected, load = _session(folder, threads)
            found[side].update(difference(outputs, expected), load=load)
            ready[side] = run
        except Refused as problem:
            found[side]["refused"] = f"onnxruntime: {str(problem).splitlines()[0]}"
    for side, turns in _turns(ready).items():
        found[side].update(latency=statistics.median(turns), turns=turns)
    return found


def _session(folder: Path, threads: int) -> tuple[Any, list[Any], list[Any], float]:
    """Return a call that runs the file once, its outputs, the model's, and the seconds of loading."""
    import onnxruntime as ort
    import torch

    stored = torch.load(folder / "run.pt", weights_only=True)
    try:
        file, provider = str(folder / "model.onnx"), "CPUExecutionProvider"
        session, load = timed(
            lambda: ort.InferenceSession(file, options(threads), providers=[provider])
        )
        names = [each.name for each in session.get_inputs()]
        kept = [to_ort(tensor) for tensor in _matching(names, stored["inputs"])]
        values = {name: value for name, (value, _) in zip(names, kept)}

        def run() -> Any:
            assert kept  # the memory that the values point to
            return session.run_with_ort_values(None, values)

        return run, [from_ort(value) for value in run()], stored["outputs"], load
    except Refused:
        raise
    except Exception as problem:  # its exceptions share no base
        raise Refused(problem) from problem


def _matching(names: list[str], inputs: dict[str, Any]) -> list[Any]:
    """Return tensors for a graph's inputs, by name, else in order; some graphs drop unused ones."""
    if set(names) <= inputs.keys():
        return [inputs[name] for name in names]
    if len(names) == len(inputs):
        return list(inputs.values())
    raise Refused(ValueError(f"its inputs are {', '.join(names)}, not {', '.join(inputs)}"))


def difference(outputs: list[Any], expected: list[Any]) -> dict[str, Any]:
    """Return the largest error, and its share of the largest value of its output."""
    import torch

    from hx.runtime import as_pairs
    from hx.tensor_bytes import equal_numbers

    if len(outputs) != len(expected):
        return {"mismatch": f"gives {len(outputs)} outputs, the model {len(expected)}"}
    error = share = 0.0
    for ours, theirs in zip(outputs, map(as_pairs, expected)):
        if ours.shape != theirs.shape:
            return {"mismatch": f"gives {list(ours.shape)}, the model {list(theirs.shape)}"}
        if not theirs.numel():
            continue
        a, b = ours.to(torch.float64), theirs.to(torch.float64)
        same = equal_numbers(a, b)
        gap = torch.where(same, 0.0, (a - b).abs()).nan_to_num(math.inf)
        largest = float(gap.max())
        scale = float(b.abs().nan_to_num(0, 0, 0).max())
        error = max(error, largest)
        share = max(share, largest / scale if scale else (math.inf if largest else 0.0))
    return {"error": error, "share": share}


def _turns(runs: dict[str, Any]) -> dict[str, list[float]]:
    if not runs:
        return {}
    repeats, once = {}, 0.0
    for side, run in runs.items():
        run()
        start = time.perf_counter()
        run()
        took = max(time.perf_counter() - start, 1e-7)
        repeats[side] = max(1, math.ceil(SECONDS_PER_TURN / took))
        once += took * repeats[side]
    count = min(MAX_TURNS, max(MIN_TURNS, int(TOTAL_SECONDS / once)))
    found: dict[str, list[float]] = {side: [] for side in runs}
    order = list(runs)
    gc.disable()
    try:
        for turn in range(count):
            for side in order if turn % 2 else reversed(order):
                run = runs[side]
                start = time.perf_counter()
                for _ in range(repeats[side]):
                    run()
                found[side].append((time.perf_counter() - start) / repeats[side])
    finally:
        gc.enable()
    return found

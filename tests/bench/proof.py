"""How long the proof takes, beside the export that it proves.

    python tests/bench/proof.py                     # ResNet-50 and BERT-base
    python tests/bench/proof.py resnet50 --repeat 5

Medians, of exports to a file in one process. `record` is the run under the hooks, `verify` all
cases of the proof (the model's own answers and the file's), `sizes` the second recording, `nodes`
the comparison of every node, and `page` the report as HTML.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import models

import hx

STAGES = ("export", "record", "assemble", "save", "verify", "sizes", "nodes", "page")


def timed(work, *args) -> float:
    start = time.perf_counter()
    work(*args)
    return time.perf_counter() - start


def measured(name: str, repeat: int) -> dict:
    model, args = getattr(models, name)()
    model.eval()
    axes = {}
    for text in models.MODELS[name].split():
        head, _, rest = text.partition(":")
        axes[head] = {int(a): word for a, word in (part.split("=") for part in rest.split(","))}
    found: dict[str, list[float]] = {stage: [] for stage in STAGES}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        for turn in range(repeat + 1):
            program = hx.export(model, args, path, dynamic=axes)
            times = dict(program.report.timings)
            times["export"] = sum(times.get(stage, 0.0) for stage in ("record", "assemble", "save"))
            times["nodes"] = timed(program.check_nodes)
            times["page"] = timed(program.report.to_html, path.with_suffix(".html"))
            if turn:  # the first turn imports and warms up
                for stage in STAGES:
                    found[stage].append(times.get(stage, 0.0))
    cases = len(program.proof.cases)
    return {
        "model": name,
        "cases": cases,
        "seconds": {s: statistics.median(t) for s, t in found.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["resnet50", "bert"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [measured(name, given.repeat) for name in given.models]
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'model':<12}{'cases':>7}" + "".join(f"{stage:>10}" for stage in STAGES))
    for row in rows:
        cells = "".join(f"{row['seconds'][stage]:>9.2f}s" for stage in STAGES)
        print(f"{row['model']:<12}{row['cases']:>7}{cells}")


if __name__ == "__main__":
    main()

"""How long an export takes, beside the least it could take and beside both torch.onnx exporters.

    python tests/bench/export.py                    # ResNet-50 and BERT-base
    python tests/bench/export.py deep --repeat 3    # 1,000 and 10,000 nodes
    python tests/bench/export.py --memory           # peak memory, one process for each side

All sides run in one process, in turn; medians. The floor is one eager forward and a raw write of
the weights. torch.onnx runs with its defaults. Proofs are left out: they are not the export.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

SIDES = ("floor", "hx", "torchscript", "dynamo")


# torchvision from the registry expects CUDA's operators: their schemas alone let it import.
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def resnet50():
    import torchvision

    return torchvision.models.resnet50(), (torch.randn(1, 3, 224, 224),), {"x": {0: "batch"}}


def bert():
    import transformers

    ids = torch.randint(0, 30000, (1, 128))
    axes = {0: "batch", 1: "sequence"}
    model = transformers.BertModel(transformers.BertConfig())
    return model, (ids, torch.ones_like(ids)), {"input_ids": axes, "attention_mask": axes}


class Deep(torch.nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, x):
        for _ in range(self.steps):
            x = torch.tanh(x * 1.01)
        return x


def nodes_1000():
    return Deep(500), (torch.randn(2, 4),), {}


def nodes_10000():
    return Deep(5000), (torch.randn(2, 4),), {}


MODELS = {f.__name__: f for f in (resnet50, bert, nodes_1000, nodes_10000)}


def floor(model, args, axes, path):
    with torch.no_grad():
        model(*args)
    with path.open("wb") as file:
        for tensor in {id(t): t for t in model.state_dict().values()}.values():
            file.write(memoryview(tensor.detach().contiguous().reshape(-1).numpy()).cast("B"))


def with_hx(model, args, axes, path):
    import hx

    hx.export(model, args, path, dynamic=axes, verify=False)


def with_torchscript(model, args, axes, path):
    torch.onnx.export(
        model, args, str(path), dynamo=False, dynamic_axes=axes, input_names=list(axes) or None
    )


def with_dynamo(model, args, axes, path):
    shapes = {k: dict.fromkeys(v, torch.export.Dim.AUTO) for k, v in axes.items()} or None
    torch.onnx.export(model, args, str(path), dynamo=True, dynamic_shapes=shapes, verbose=False)


RUN = {"floor": floor, "hx": with_hx, "torchscript": with_torchscript, "dynamo": with_dynamo}


@contextlib.contextmanager
def quiet():
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def seconds(side, made, folder) -> float:
    path = Path(folder, f"{side}.onnx")
    path.unlink(missing_ok=True)
    start = time.perf_counter()
    RUN[side](*made, path)
    return time.perf_counter() - start


def timed(name: str, sides, repeat: int) -> dict:
    model, args, axes = MODELS[name]()
    made = (model.eval(), args, axes)
    found: dict[str, list[float]] = {side: [] for side in sides}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(repeat + 1):
            for side in sides:
                if side in failed or (side in ("dynamo",) and turn > max(1, repeat // 2)):
                    continue
                try:
                    with quiet():
                        took = seconds(side, made, folder)
                except Exception as e:
                    failed[side] = f"{type(e).__name__}: {str(e).splitlines()[0][:60]}"
                    continue
                if turn:  # the first turn imports and warms up
                    found[side].append(took)
    medians = {side: statistics.median(times) for side, times in found.items() if times}
    return {"model": name, "seconds": medians, "failed": failed}


def peak(name: str, side: str) -> float:
    """Peak memory above the loaded model and one forward, in MB: of this process."""
    model, args, axes = MODELS[name]()
    model.eval()
    with quiet(), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        small = nodes_1000()
        RUN[side](*small, Path(folder, "warm.onnx"))  # what is imported is not memory of the export
        for _ in range(2):
            model(*args)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        RUN[side](model, args, axes, Path(folder, "m.onnx"))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def ratio(times, over, under, width, digits) -> str:
    if not {over, under} <= times.keys():
        return f"{'-':>{width + 1}}"
    return f"{times[over] / times[under]:>{width}.{digits}f}x"


def table(rows) -> str:
    head = "".join(f"{side:>14}" for side in SIDES)
    lines = [f"{'model':<14}{head}{'hx/floor':>10}{'dynamo/hx':>11}"]
    for row in rows:
        t = row["seconds"]
        cells = "".join(f"{t[s]:>13.2f}s" if s in t else f"{'-':>14}" for s in SIDES)
        ratios = ratio(t, "hx", "floor", 9, 2) + ratio(t, "dynamo", "hx", 10, 1)
        lines.append(f"{row['model']:<14}{cells}{ratios}")
        lines += [f"  {side}: {why}" for side, why in row["failed"].items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["resnet50", "bert"])
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    deep = ["nodes_1000", "nodes_10000"]
    names = [n for name in given.models for n in (deep if name == "deep" else [name])]
    sides = given.sides.split(",")
    if given.peak:
        print(peak(names[0], given.peak))
    elif given.memory:
        for name in names:
            for side in sides:
                out = subprocess.run(
                    [sys.executable, __file__, name, "--peak", side],
                    capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"},
                )  # fmt: skip
                last = (out.stdout.strip().splitlines() or ["failed"])[-1]
                print(f"{name:<12}{side:<14}{last:>10.10} MB above one forward")
    else:
        rows = [timed(name, sides, given.repeat) for name in names]
        print(json.dumps(rows, indent=2) if given.json else table(rows))


if __name__ == "__main__":
    main()

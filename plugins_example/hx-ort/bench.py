"""What this pack gains: each model exported plainly and with the pack, run in turn in onnxruntime.

python bench.py          # one thread; medians of the ratio of a turn, sizes on disk
"""

from __future__ import annotations

import copy
import statistics
import tempfile
import time
from pathlib import Path

import hx_ort
import onnxruntime
import torch
from torch import nn

import hx
from hx.registry import Registry

ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


class Attend(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, q, k, v):
        q, k, v = (x.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for x in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).flatten(2)


def session(model, args, folder, name, **options):
    path = Path(folder, f"{name}.onnx")
    hx.export(model, args, path, **options)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    loaded = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    names = [each.name for each in loaded.get_inputs()]
    feeds = {key: tensor.numpy() for key, tensor in zip(names, args)}
    return (lambda: loaded.run(None, feeds)), path.stat().st_size


def turns(runs, seconds=4.0):
    times = [[], []]
    for run in runs:
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 10:
        for run, kept in zip(runs, times):
            start = time.process_time()
            run()
            kept.append(time.process_time() - start)
    ratio = statistics.median(a / b for a, b in zip(*times))
    return *map(statistics.median, times), ratio


def show(what, model, own, args, **options):
    with tempfile.TemporaryDirectory() as folder:
        plain, before = session(model, args, folder, "plain")
        packed, after = session(own, args, folder, "own", **options)
        a, b, ratio = turns([plain, packed])
        print(f"| {what} | {a * 1e3:.2f} ms | {b * 1e3:.2f} ms | {ratio:.2f}x | "
              f"{before / 1e6:.2f} MB | {after / 1e6:.2f} MB |", flush=True)  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    chosen = Registry.installed(use={ATTENTION: "hx-ort"})
    print("| | standard | hx-ort | faster | file | file |\n|---|---|---|---|---|---|")
    for batch, heads, length in [(2, 12, 32), (2, 12, 197), (1, 12, 512), (1, 6, 1500)]:
        args = tuple(torch.randn(batch, length, heads * 64) for _ in "qkv")
        what = f"attention, {batch} x {heads} heads x {length}"
        show(what, Attend(heads), Attend(heads), args, packs=chosen)
    for width in (768, 2048, 4096):
        linear = nn.Linear(width, width)
        small = hx_ort.quantize(nn.Sequential(copy.deepcopy(linear)), least=0)
        for rows in (1, 16, 128):
            show(f"Linear({width}), {rows} rows", linear, small, (torch.randn(rows, width),))


if __name__ == "__main__":
    main()

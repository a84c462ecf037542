"""What recording costs beside a plain forward, in time and memory.

    python tests/bench/record.py [resnet18|bert|small] [--runs 10]

Each way runs in a process of its own; the runs are interleaved with plain ones, and the medians of
both are compared. Memory is the highest resident size during the runs, less that before them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

import hx

sys.path.insert(0, str(Path(__file__).parents[1] / "shared"))
import vision

WAYS = {
    "plain": lambda model: contextlib.nullcontext(),
    "a watcher elsewhere": lambda model: hx.record(torch.nn.Sequential(torch.nn.Identity()), "0"),
    "two modules": lambda model: hx.record(model, *list(dict(model.named_children()))[-2:]),
    "everything": lambda model: hx.record(model, limit=1),
    "everything, no clone": lambda model: hx.record(model, limit=1, clone=False),
    "everything, its mean": lambda model: hx.record(model, limit=1, reduce=_mean),
    "one function": lambda model: hx.record(torch.relu, limit=1),
}


def _mean(tensor):
    return tensor.float().mean()


def resnet18():
    return vision.torchvision().models.resnet18().eval(), (torch.randn(8, 3, 224, 224),)


def small():
    """A thousand modules that do nothing: the cost of a module call itself."""
    return torch.nn.Sequential(*(torch.nn.Identity() for _ in range(1000))), (torch.ones(1),)


def bert():
    import transformers

    model = transformers.BertModel(transformers.BertConfig(num_hidden_layers=6)).eval()
    return model, (torch.randint(0, 1000, (4, 128)),)


MODELS = {"resnet18": resnet18, "bert": bert, "small": small}


class Peak:
    """The highest resident size meanwhile, in bytes above that at the start."""

    def __enter__(self):
        self.start, self.most, self.over = _resident(), 0, threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def _look(self):
        while not self.over.wait(0.002):
            self.most = max(self.most, _resident() - self.start)

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def _resident():
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096


def measure(name, way, runs):
    model, args = MODELS[name]()
    block = WAYS[way](model)
    plain, with_it = [], []
    with torch.no_grad():
        model(*args)
        with Peak() as peak_plain:
            model(*args)
        with Peak() as peak, block:
            model(*args)
        for _ in range(runs):
            plain.append(_time(model, args))
            with block:
                with_it.append(_time(model, args))
    return {
        "plain": statistics.median(plain),
        "with": statistics.median(with_it),
        "ratio": statistics.median(b / a for a, b in zip(plain, with_it)),
        "peak_plain": peak_plain.most,
        "peak": peak.most,
        "kept": _kept(block),
    }


def _kept(record):
    """Bytes of what a record holds, shared memory once."""
    from hx.packs import nesting

    found = {}
    for place in getattr(record, "values", list)():
        for call in place.calls:
            for _, leaf in nesting.leaves([call.args, call.kwargs, call.output]):
                if isinstance(leaf, torch.Tensor):
                    storage = leaf.untyped_storage()
                    found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def _time(model, args):
    start = time.perf_counter()
    model(*args)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="resnet18")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--way")
    given = parser.parse_args()
    if given.way:
        print(json.dumps(measure(given.model, given.way, given.runs)))
        return
    print(f"{given.model}, {torch.get_num_threads()} threads")
    print(f"{'':24}{'plain':>10}{'with':>10}{'ratio':>8}{'peak':>12}{'plain':>10}{'kept':>10}")
    for way in WAYS:
        command = [sys.executable, __file__, given.model, "--runs", str(given.runs), "--way", way]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{way:24}{found['plain'] * 1e3:7.1f} ms{found['with'] * 1e3:7.1f} ms"
            f"{found['ratio']:8.3f}{found['peak'] / 1e6:9.1f} MB{found['peak_plain'] / 1e6:7.1f} MB"
            f"{found['kept'] / 1e6:7.1f} MB"
        )


if __name__ == "__main__":
    main()

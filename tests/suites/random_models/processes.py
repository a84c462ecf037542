"""Draws, exports and judges in processes of their own."""

from __future__ import annotations

import argparse
import multiprocessing
from typing import Any

import torch

from .judge import BAD, check
from .shrinking import apart, shrunk
from .writer import draw


def outcomes(options: argparse.Namespace):
    """The outcome of each seed, from a process of its own: a file may bring a runtime down."""
    context = multiprocessing.get_context("spawn")
    seed, last = options.seed, options.seed + options.count
    while seed < last:
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(theirs, options, seed, last))
        worker.start()
        theirs.close()
        while seed < last:
            try:
                if not ours.poll(120):
                    raise EOFError
                yield ours.recv()
            except EOFError:
                worker.kill()
                worker.join()
                small = shrunk(draw(seed, options.length), alone=True)
                yield seed, "crashed", apart(small).key, f"--- {apart(small).detail}\n{small}"
                seed += 1
                break
            seed += 1
        worker.join()


def _work(pipe: Any, options: argparse.Namespace, first: int, last: int) -> None:
    torch.set_num_threads(1)
    seen: set[str] = set()
    wanted = BAD + ("refused",) * options.refused + ("told",) * options.told
    for seed in range(first, last):
        model = draw(seed, options.length)
        if options.show:
            print(model, flush=True)
        prove = bool(options.prove) and seed % options.prove == 0
        outcome = check(model, prove)
        key = text = ""
        if outcome.kind in wanted:
            key = outcome.key
            if key not in seen:
                seen.add(key)
                small = shrunk(model, prove)
                final = check(small, prove)
                text = f"--- {final.kind} at {final.at}: {final.detail}\n{small}"
        pipe.send((seed, outcome.kind, key, text))

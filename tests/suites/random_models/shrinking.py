"""Cuts a fault down to the lines that it takes."""

from __future__ import annotations

import dataclasses
import multiprocessing

from .judge import Outcome, check
from .model import Model


def shrunk(model: Model, prove: bool = False, alone: bool = False) -> Model:
    """The same fault with as few lines, outputs and dynamic axes as it takes."""

    def look(other: Model) -> str:
        return (apart(other) if alone else check(other, prove)).key

    found = look(model)

    def still(other: Model) -> bool:
        return look(other) == found

    def without(lines: list[str], i: int) -> list[str]:
        return lines[:i] + lines[i + 1 :]

    for output in model.outputs:
        one = dataclasses.replace(model, outputs=[output])
        if len(model.outputs) > 1 and still(one):
            model = one
            break
    smaller = True
    while smaller:
        smaller = False
        for i in reversed(range(len(model.lines))):
            other = dataclasses.replace(model, lines=without(model.lines, i))
            if still(other):
                model, smaller = other, True
        for name, axes in model.dynamic.items():
            for axis in axes:
                kept = {k: {a: w for a, w in v.items() if (k, a) != (name, axis)}
                        for k, v in model.dynamic.items()}  # fmt: skip
                other = dataclasses.replace(model, dynamic={k: v for k, v in kept.items() if v})
                if still(other):
                    model, smaller = other, True
                    break
            if smaller:
                break
    for opset in (20, 18):
        other = dataclasses.replace(model, opset=opset)
        if model.opset != opset and still(other):
            return other
    return model


def apart(model: Model) -> Outcome:
    """What comes of it in a process of its own, which may end."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    worker = context.Process(target=lambda: theirs.send(check(model)))
    worker.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(120) else Outcome("crashed", "it takes for ever")
    except EOFError:
        worker.join()
        found = Outcome("crashed", f"the process ended with signal {-(worker.exitcode or 0)}")
    worker.kill()
    worker.join()
    return found

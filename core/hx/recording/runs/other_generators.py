"""Random numbers that the model draws with Python or NumPy: no graph can draw them again.

Draws from PyTorch arrive at its doors. These show only in the states of the generators.
"""

from __future__ import annotations

import dis
import random
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import Where
from ..reads.note_escapes import note_escape
from ..recording import Recording

_PYTHONS: Any = vars(random)["_inst"]  # the generator behind the functions of `random`


class Generators:
    """States of the random generators of Python and numpy when this was made."""

    def __init__(self) -> None:
        self._states = _states()

    def tell(self, recording: Recording) -> bool:
        """Return True if the model drew from a generator; notes that the numbers are fixed."""
        told = False
        for name, now in _states().items():
            was = self._states.get(name)  # none before the model imports numpy.random
            if now == was:
                continue
            where = next(_lines(recording, name), None)
            if where is None and (was is None or threading.active_count() > 1):
                continue  # another thread's, it may be
            told = True
            note_escape(
                recording,
                "draw",
                f"{name} draws numbers: those of the recording stay in the graph for good",
                where or recording.position.where(),
            )
        return told


def stir(run: int) -> None:
    """Seed the generators, so that they draw other numbers than in the recording or in another run.

    `preserved` restores their states.
    """
    random.seed(run)
    if "numpy.random" in sys.modules:
        sys.modules["numpy"].random.seed(run)


def _states() -> dict[str, Any]:
    states: dict[str, Any] = {"Python's random module": random.getstate()}
    if "numpy.random" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        states["numpy.random"] = (kind, keys.tobytes(), *rest)
    return states


def _lines(recording: Recording, name: str) -> Iterator[Where]:
    """The lines that mention the generator: in functions that ran and in methods of the modules.

    Some of these run unseen, as they ask PyTorch for nothing that follows from inputs.
    """
    for code, names in (*recording.position.frames.visited, *_methods(recording)):
        lines = dict(dis.findlinestarts(code))
        line = code.co_firstlineno
        for step in dis.get_instructions(code):
            line = lines.get(step.offset, line)
            if isinstance(step.argval, str) and _draws(names, step.argval, name, code):
                yield Where(code.co_filename, line, "", code.co_name)


def _methods(recording: Recording) -> Iterator[tuple[types.CodeType, Mapping[str, Any]]]:
    kinds = {kind: None for _, module in recording.model.modules for kind in type(module).__mro__}
    for kind in kinds:
        for thing in vars(kind).values() if not kind.__module__.startswith("torch.") else ():
            if isinstance(thing, types.FunctionType):
                yield thing.__code__, thing.__globals__


def _draws(names: Mapping[str, Any], word: str, name: str, code: types.CodeType) -> bool:
    thing = names.get(word)
    if name == "numpy.random":
        numpy = sys.modules["numpy"]
        if thing is numpy:
            return "random" in code.co_names
        return (
            thing is numpy.random or getattr(thing, "__self__", None) is numpy.random.mtrand._rand
        )
    return thing is random or getattr(thing, "__self__", None) is _PYTHONS

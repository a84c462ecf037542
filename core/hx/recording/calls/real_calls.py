"""The real call behind a recorded one, run unseen by the doors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ... import torch_facts
from ..memory.constants import freeze_before_write
from ..recording import Recording


def run_unrecorded(run: Callable[[], Any]) -> Any:
    """Run a function that no door of torch sees."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return run()


def real_call(recording: Recording, key: Any, func: Callable, args: tuple, kwargs: Any) -> Callable:
    """A function that runs the call itself, for a caller that has shut the doors of torch."""

    def run() -> Any:
        if torch_facts.writes(key, func, args, kwargs):
            freeze_before_write(recording, args, kwargs)
        running = recording.running
        outer, running.covered = running.covered, True
        try:
            return _run(recording, func, args, kwargs)
        finally:
            running.covered = outer

    return run


def call_unrecorded(recording: Recording, func: Callable, args: tuple, kwargs: Any) -> Any:
    """The result of a call, none of whose inner calls is recorded."""
    return run_unrecorded(lambda: _run(recording, func, args, kwargs))


def _run(recording: Recording, func: Callable, args: tuple, kwargs: Any) -> Any:
    """Run a call: on shapes alone, if contents of its tensors are stored elsewhere."""
    blend = recording.model.blend
    return func(*args, **kwargs) if blend is None else blend.quietly(func, args, kwargs)

"""Draws that are the same at every run: behind a seed that the model itself sets as it runs.

`torch.manual_seed(0)` arrives at a hook. A generator of the model's own is seeded in C, where nobody
sees it. But one that holds what its seed gives, and nothing drawn from that, was seeded just now if
the code that ran speaks of seeding: one of the model's that it only draws from has moved on, at the
latest when the model runs next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from . import known
from .call import Arguments

if TYPE_CHECKING:
    from .recording import Recording


def same(recording: Recording, key: Any, given: Arguments) -> bool:
    """Whether a call draws what it draws at every run."""
    generator = given.kwargs.get("generator")
    if not (recording.seeded if generator is None else known.is_random(key)):
        return False
    if not known.is_fixed(key, given):
        return False
    return generator is None or _seeded(recording, generator)


def _seeded(recording: Recording, generator: torch.Generator) -> bool:
    if recording.generators.get(id(generator)) is generator:
        return True
    fresh = torch.Generator(generator.device).manual_seed(generator.initial_seed())
    if not torch.equal(fresh.get_state(), generator.get_state()):
        return False
    recording.where()  # whose frame is seen with that
    if not any("manual_seed" in code.co_names for code, _ in recording.frames.visited):
        return False
    recording.generators[id(generator)] = generator
    return True

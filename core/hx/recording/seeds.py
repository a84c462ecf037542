"""Draws that are the same at every run: behind a seed that the model itself sets as it runs.

`torch.manual_seed(0)` arrives at a hook. A generator of the model's own is seeded in C, where nobody
sees it. But one that holds what its seed gives, and nothing drawn from that, was seeded just now if
it was made in this run, or if the code that ran speaks of seeding: one of the model's that it only
draws from has moved on, at the latest when the model runs next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from . import known
from .call import Arguments

if TYPE_CHECKING:
    from .recording import Recording

_Generator = torch.Generator  # there is another in its place while a model is recorded
_SMALL = 1 << 32  # `generator.seed()` takes a number from the system: hardly ever one so small


def places(recording: Recording) -> list[tuple[Any, str, Callable]]:
    """What to hook to see generators made: owner, name, maker of the stand-in."""

    def wrapper(original: Callable) -> Callable:
        def make(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if not recording.busy:
                recording.made.append(made)
            return made

        return make

    return [(torch, "Generator", wrapper)]


def same(recording: Recording, key: Any, given: Arguments) -> bool:
    """Whether a call draws what it draws at every run."""
    generator = given.kwargs.get("generator")
    recording.own_draws |= generator is not None
    if not (recording.seeded if generator is None else known.is_random(key)):
        return False
    if not known.is_fixed(key, given):
        return False
    return generator is None or _seeded(recording, generator)


def _seeded(recording: Recording, generator: torch.Generator) -> bool:
    if recording.generators.get(id(generator)) is generator:
        return True
    fresh = _Generator(generator.device)
    unset, seed = fresh.initial_seed(), generator.initial_seed()
    if not torch.equal(fresh.manual_seed(seed).get_state(), generator.get_state()):
        return False
    made = any(generator is one for one in recording.made)
    if not (made and (seed == unset or seed < _SMALL)) and not _speaks_of_seeds(recording):
        return False
    recording.generators[id(generator)] = generator
    return True


def _speaks_of_seeds(recording: Recording) -> bool:
    recording.where()  # whose frame is seen with that
    return any("manual_seed" in code.co_names for code, _ in recording.frames.visited)

"""Draws that are the same in every run: they follow a seed that the model itself sets as it runs.

`torch.manual_seed(0)` arrives at a hook. A generator of the model's own is seeded in C, unseen. But
if its state is exactly that of its seed, with nothing drawn yet, it was seeded just now, provided
that it was made in this run, or that the code that ran mentions seeding: a generator that the model
only draws from has moved on, at the latest when the model runs next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ... import torch_facts
from ..calls.arguments import Arguments
from ..recording import Recording

_Generator = torch.Generator  # there is another in its place while a model is recorded
_LARGEST_CHOSEN = (
    1 << 32
)  # `generator.seed()` takes a number from the system: hardly ever one so small


def places(recording: Recording) -> list[tuple[Any, str, Callable]]:
    """The hook that sees generators made: owner, name, and the maker of the wrapper."""

    def wrapper(original: Callable) -> Callable:
        def make(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if not recording.running.busy:
                recording.draws.new_generators.append(made)
            return made

        return make

    return [(torch, "Generator", wrapper)]


def same(recording: Recording, key: Any, given: Arguments) -> bool:
    """Return True if a call draws the same numbers at every run."""
    generator = given.kwargs.get("generator")
    recording.draws.own_generator |= generator is not None
    if not (recording.draws.seeded if generator is None else torch_facts.is_random(key)):
        return False
    if not _is_fixed(key, given):
        return False
    return generator is None or _seeded(recording, generator)


def _seeded(recording: Recording, generator: torch.Generator) -> bool:
    if recording.draws.seeded_generators.get(id(generator)) is generator:
        return True
    fresh = _Generator(generator.device)
    unset, seed = fresh.initial_seed(), generator.initial_seed()
    if not torch.equal(fresh.manual_seed(seed).get_state(), generator.get_state()):
        return False
    made = any(generator is one for one in recording.draws.new_generators)
    if not (made and (seed == unset or seed < _LARGEST_CHOSEN)) and not _speaks_of_seeds(recording):
        return False
    recording.draws.seeded_generators[id(generator)] = generator
    return True


def _speaks_of_seeds(recording: Recording) -> bool:
    recording.position.where()  # whose frame is seen with that
    return any("manual_seed" in code.co_names for code, _ in recording.position.frames.visited)


def _is_fixed(key: Any, given: Arguments) -> bool:
    """Return whether a function draws the same numbers at every run, after a seed set by the model."""
    if not torch_facts.is_random(key) or given.has_sizes:
        return False
    if not given.traced:
        return True
    return key.endswith("_like") and not any(value.dynamic for value in given.values)

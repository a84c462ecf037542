"""Sizes on the other side of a question, and the limits that exclude them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .input_grammar import Limits

Sizes = Mapping[str, int]


@dataclass
class Move:
    """Sizes at which an answer differs, and the limits that exclude all such sizes."""

    sizes: dict[str, int]
    limits: dict[str, Limits] = field(default_factory=dict)

    def holds(self, sizes: Sizes) -> bool:
        """Return True if these sizes are within the limits."""
        return all(limit.hold(sizes[word]) for word, limit in self.limits.items())

    @property
    def within(self) -> str:
        """The limits as they are written in `dynamic=`, where more than one size is left."""
        ranges = {w: limit for w, limit in self.limits.items() if limit.single is None}
        return ", ".join(f"{limit.written(w)} in place of {w}" for w, limit in ranges.items())

    @property
    def fixed(self) -> str:
        """Advice on the sizes of which only one is left: no limits, but no dynamic axis."""
        sizes = {w: limit.single for w, limit in self.limits.items() if limit.single is not None}
        return ", ".join(f"leave {w} out of dynamic=; only {w}={n} works" for w, n in sizes.items())

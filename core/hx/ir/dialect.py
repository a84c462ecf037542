"""Facts about a graph that every writer of its nodes needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from .value import Value


@dataclass
class Dialect:
    opset: int
    # Versions of the operator sets beside ONNX's own, by domain.
    domains: dict[str, int] = field(default_factory=dict)
    named_sizes: dict[str, tuple[Value, int]] = field(default_factory=dict)  # -> input and axis
    unfolded: bool = False  # results of zeros that a model makes are computed, too

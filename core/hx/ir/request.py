"""The request of a user: checked once, and never changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .dynamic_axes import Axes

Inputs = dict[str, torch.Tensor]
Path = str | os.PathLike


@dataclass(frozen=True)
class Call:
    """One call of the model; its tensors are the inputs of the graph."""

    model: Callable[..., Any]
    root: torch.nn.Module  # the model, or what holds the modules that it reaches
    args: tuple
    kwargs: dict[str, Any]
    tensors: Inputs

    @property
    def names(self) -> list[str]:
        return list(self.tensors)


@dataclass(frozen=True)
class Weights:
    """Weights that are not in the model as it runs."""

    streamed: bool = False  # they are read from a file, or cast on their way
    hollow: bool = False  # some have no contents while the model runs
    dtype: torch.dtype | None = None  # they are cast to it


@dataclass(frozen=True)
class Destination:
    """A place for the file; without a path, the graph stays in memory."""

    path: Path | None = None
    external_data: bool | None = None  # weights in a file of their own; None decides by size
    keep_rejected: Path | None = None  # the place for a file that is wrong


@dataclass(frozen=True)
class Options:
    opset: int = 20
    outputs: Sequence[str] | None = None  # modules whose outputs are wanted instead
    output_names: Sequence[str] | None = None
    verify: bool = True
    strict: bool = False
    check_every_node: bool = False


@dataclass(frozen=True)
class Request:
    call: Call
    sizes: Axes
    weights: Weights = field(default_factory=Weights)
    options: Options = field(default_factory=Options)
    destination: Destination = field(default_factory=Destination)
    others: Mapping[str, Inputs] = field(
        default_factory=dict
    )  # further valid inputs, by their name

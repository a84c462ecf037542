"""What a pack can give besides converters: the records that its hooks return.

Each is a description that costs nothing to make. `pack` is filled in when the pack is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx_ir


# While a model is made whose weights are streamed from elsewhere: a source need not load any.
without_weights: ContextVar[bool] = ContextVar("without_weights", default=False)


@dataclass(frozen=True)
class ModelSource:
    """`scheme:name` on the command line -> `load(name)`: a module, or `(module, inputs)`."""

    scheme: str
    load: Callable[[str], Any]
    doc: str = ""
    names: Callable[[], Iterable[str]] | None = None  # for completion and near misses
    pack: str = ""


@dataclass(frozen=True)
class Container:
    """A class that holds tensors, by dotted name, with the way into it and back."""

    type: str
    flatten: Callable[[Any], tuple[Mapping[str, Any], Any]]
    unflatten: Callable[[Mapping[str, Any], Any], Any]
    pack: str = ""

    @property
    def subject(self) -> str:
        """What it is for, as `--use SUBJECT=PACK` names it."""
        return self.type


@dataclass(frozen=True)
class ReferenceKernel:
    """What a custom operator computes: numpy arrays in, attributes by name, arrays out."""

    domain: str
    op_type: str
    run: Callable[..., Any]
    pack: str = ""

    @property
    def subject(self) -> str:
        """What it is for, as `--use SUBJECT=PACK` names it."""
        return f"{self.domain}::{self.op_type}"


@dataclass(frozen=True)
class GraphPass:
    """A rewrite of the finished graph: changes the model in place, or returns another."""

    name: str
    run: Callable[[onnx_ir.Model], onnx_ir.Model | None]
    doc: str = ""
    pack: str = ""

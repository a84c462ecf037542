"""The part of `op` that formulas of sizes use: plain data cannot import the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from .value import Value


class NodeWriter(Protocol):
    """Writes constants, vectors of sizes, and one node for each call of an ONNX operator's name."""

    def constant(self, x: Any, dtype: torch.dtype | None = None) -> Value: ...

    def cast(self, x: Any, dtype: torch.dtype) -> Value: ...

    def sizes(self, x: Any) -> Value: ...

    def __getattr__(self, operator: str) -> Callable[..., Any]: ...

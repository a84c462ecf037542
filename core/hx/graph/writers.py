"""The builder and `op` as seen by the files that write nodes for them.

The builder calls these files (casts, complex and sparse values, sizes, blocks), so they receive it
by what they use of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from ..ir.dialect import Dialect
from ..ir.node_writer import NodeWriter
from ..ir.value import Constant, Node, Origin, Value
from .schemas import Schema


class HasNodes(Protocol):
    """A graph that a builder can write over."""

    nodes: list[Node]
    dialect: Dialect


class SizeWriter(Protocol):
    """Writes sizes, each once in a graph or body."""

    def vector(self, sizes: Any) -> Value: ...

    def scope(self, empty: bool = False) -> Any: ...

    def restore(self, kept: Any) -> None: ...


class BlockWriter(Protocol):
    """Writes nodes with bodies."""

    nodes: list[Node]
    origin: Origin | None  # of the call that is converted

    @property
    def sizes(self) -> SizeWriter: ...

    def emit(
        self,
        op: str,
        inputs: Sequence[Any],
        attributes: dict,
        count: int | None = None,
        domain: str = "",
        results: Sequence[tuple] | None = None,
    ) -> list[Value]: ...


class GraphWriter(BlockWriter, Protocol):
    """Writes values and nodes; `append` and `enter` write a node whose inputs already fit."""

    opset: int
    dialect: Dialect
    lengths: object  # None unless rounds of a loop are recorded
    value_of: Callable[[torch.Tensor], Value]
    note_escape: Callable[..., None]

    def value(self, dtype: Any, shape: Any) -> Value: ...

    def kept(self, tensor: torch.Tensor, name: str) -> Constant: ...

    def constant(self, tensor: torch.Tensor, name: str = "") -> Constant: ...

    def number(self, x: Any, dtype: torch.dtype) -> Value: ...

    def cast(self, x: Value, dtype: torch.dtype) -> Value: ...

    def lifted(self, schema: Schema, inputs: list[Any]) -> list[Any]: ...

    def append(
        self, op: str, schema: Schema, values: list[Any], attributes: dict, count: int
    ) -> list[Value]: ...

    def enter(self, node: Node) -> None: ...

    def custom_domain(self, domain: str, version: int) -> None: ...


class OpWriter(NodeWriter, Protocol):
    """`op`, with the builder behind it."""

    _builder: GraphWriter

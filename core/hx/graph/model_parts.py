"""Parts of a file: one model as a graph in bytes, and the weights beside it.

Weights stay where they are until a file is written. Imports nothing heavy when it is imported.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..budget import BUDGET
from .file_nodes import all_nodes, metadata_of

if TYPE_CHECKING:
    import onnx
    import torch

    from ..weights.contents import Content

EARLY_WEIGHT_BYTES = (
    64 << 10
)  # bytes from which on a weight of the model comes before the graph in a file


class Values(Protocol):
    def chunks(self) -> Iterator[memoryview]: ...
    def region(self) -> Hashable: ...


@dataclass
class Weight:
    """One initializer: its TensorProto without the values, and the values."""

    proto: onnx.TensorProto
    values: Values
    size: int
    early: bool = False  # comes before the graph, when it is in the same file

    def chunks(self) -> Iterator[memoryview]:
        """The bytes of the values, in steps small enough for Ctrl-C to be answered between them."""
        done = 0
        for chunk in self.values.chunks():
            for start in range(0, len(chunk), BUDGET.bytes.piece):
                yield chunk[start : start + BUDGET.bytes.piece]
            done += len(chunk)
        if done != self.size:
            raise RuntimeError(
                f"{self.proto.name} gave {done} bytes where {self.size} were announced"
            )


@dataclass
class Parts:
    """The graph, the model around it, and the weights that have bytes of their own."""

    ir_version: int
    model: onnx.ModelProto  # without its graph and version
    graph_bytes: bytes
    weights: list[Weight]
    # Nodes by the pack that wrote them, with those of bodies; None where nobody has counted.
    counted: Counter[str] | None = None

    def by_pack(self) -> Counter[str]:
        """The number of nodes that each pack wrote; "" stands for hx itself."""
        if self.counted is None:
            entries = (metadata_of(node) for node in self.nodes)
            self.counted = Counter(each.get("hx.pack", "") for each in entries)
        return self.counted

    @functools.cached_property
    def model_bytes(self) -> bytes:
        return self.model.SerializeToString(deterministic=True)

    @functools.cached_property
    def graph(self) -> onnx.GraphProto:
        """A copy of the graph: changes to it are not written."""
        import onnx

        return onnx.GraphProto.FromString(self.graph_bytes)

    @property
    def early(self) -> list[Weight]:
        return [weight for weight in self.weights if weight.early]

    @property
    def nodes(self) -> Iterator[onnx.NodeProto]:
        """All nodes, with those of bodies."""
        return all_nodes(self.graph)


def weight(name: str, content: Content, early: bool = False) -> Weight:
    import onnx

    from .. import dtypes

    number, shape = dtypes.number(content.dtype), list(content.shape)
    proto = onnx.TensorProto(name=name, data_type=number, dims=shape)
    return Weight(proto, content, math.prod(shape) * content.dtype.itemsize, early)


def is_early(name: str, tensor: torch.Tensor) -> bool:
    """Return True if a constant of this name (empty unless the model's) precedes the graph."""
    return bool(name) and tensor.numel() * tensor.element_size() >= EARLY_WEIGHT_BYTES

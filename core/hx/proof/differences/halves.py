"""Numbers that are rounded to a half float on their way to a finer output.

A model may take and return float32, and compute in halves in between: by autocast, by layers that
were cast, by a kernel that works in bfloat16. Such an output is no more exact than the halves in
it, and is compared as one of them. That takes two signs: the model computes in a half in a watched
run; and in the file, a half is on the way to that very output. So a graph that rounds where the
model does not is still wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...graph.file_nodes import all_nodes, bodies_of, following
from ...torchworld.modes.operator_modes import Seeing

if TYPE_CHECKING:
    import onnx

HALVES = (torch.float16, torch.bfloat16)
_NUMBERS = (10, 16)  # numbers of the two types in an ONNX file


class Watch(Seeing):
    """Mode that notes the coarsest half that is computed: `with Watch() as seen:`, `seen.dtype`."""

    dtype: Any = None

    def see(self, result: Any) -> None:
        for each in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(each, torch.Tensor) and each.dtype in HALVES:
                self.dtype = max(self.dtype or each.dtype, each.dtype, key=_step)


def _step(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def passed(model: onnx.ModelProto) -> set[str]:
    """Return the names of a file's values that are a half, or follow from one."""
    halves: set[str] = set()
    bodies = (body for node in all_nodes(model.graph) for body in bodies_of(node))
    for graph in (model.graph, *bodies):
        typed = (*graph.input, *graph.value_info)
        halves |= {v.name for v in typed if v.type.tensor_type.elem_type in _NUMBERS}
        halves |= {v.name for v in graph.initializer if v.data_type in _NUMBERS}
    return following(model, _rounds, halves)


def _rounds(node: Any) -> bool:
    return any(a.name in ("to", "dtype") and a.i in _NUMBERS for a in node.attribute)

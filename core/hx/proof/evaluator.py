"""Runs in onnx's reference evaluator, which tell a wrong file from a wrong runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..budget import BUDGET
from ..saving import model_file

if TYPE_CHECKING:
    from .file_proof import Case


def agrees(path: Path, case: Case, custom_ops: Sequence[Any] = ()) -> bool:
    """Return True if the file gives the model's results there, False if it cannot run there."""
    import numpy as np
    import onnx
    import torch
    from onnx.reference import ReferenceEvaluator

    from .allowance import longest_reduction
    from .declared import Sizes
    from .file_proof import compared
    from .open_file import depth

    tensors = [t for t in (*case.feeds.values(), *case.expected) if isinstance(t, torch.Tensor)]
    weights = sum(map(sum, model_file.weight_sizes(path)))
    elements = sum(t.numel() for t in tensors)
    if weights > BUDGET.bytes.reference_weights or elements > BUDGET.elements.reference:
        return False
    try:
        model = onnx.load(path)
        if len(model.graph.node) > BUDGET.nodes.reference:
            return False
        kernels = [op for op in custom_ops if isinstance(op, type)]
        if any(o.domain == "" and o.version < 19 for o in model.opset_import):
            kernels.append(_dequantizer())
        evaluator = ReferenceEvaluator(model, new_ops=kernels)
        with np.errstate(all="ignore"):  # infinity and NaN are results like others
            results = evaluator.run(None, {name: t.numpy() for name, t in case.feeds.items()})
        made = [torch.tensor(result) for result in results]
    except Exception:  # it lacks operators and dtypes, and raises any kind of error
        return False
    sizes = Sizes()
    for declared in model.graph.input:
        if declared.name in case.feeds:
            sizes.check("", declared, case.feeds[declared.name].shape)
    steps, longest = depth(model), longest_reduction(model, sizes.values)
    return len(made) == len(case.expected) and not any(
        compared(got, want, steps, computed=case.computed, longest=longest).problem
        for got, want in zip(made, case.expected)
    )


def _dequantizer() -> type:
    """Return the newest operator for opsets before 19, for which onnx implements none.

    It does the same, and reads more dtypes.
    """
    from onnx.reference.ops import op_dequantize_linear as module

    newest = [kind for name, kind in vars(module).items() if name.startswith("DequantizeLinear_")]
    return type("DequantizeLinear", (newest[-1],), {"op_domain": ""})

"""Runs in onnx's reference evaluator, which tell a wrong file from a wrong runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...budget import BUDGET
from ...saving import model_file

if TYPE_CHECKING:
    import onnx
    import torch

    from ..file_proof import Case


def agrees(path: Path, case: Case, custom_ops: Sequence[Any] = ()) -> bool:
    """Return True if the file gives the model's results there, False if it cannot run there."""
    import numpy as np
    import onnx
    import torch
    from onnx.reference import ReferenceEvaluator

    from ..declared import Sizes
    from ..differences.allowance import longest_reduction
    from ..file_proof import compared
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


def fault_of_runtime(
    path: Path, given: Mapping[str, torch.Tensor], name: str, want: Any, kernels: Sequence[type]
) -> str:
    """Return the operator that onnxruntime computes otherwise than ONNX defines it.

    This looks at the nodes that make a value of given ones. The result is "" if the reference
    evaluator does not make what is wanted of them, or cannot run them.
    """
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator

    from ... import tensor_bytes
    from ...runtime import Session
    from ..file_proof import compared

    if sum(map(sum, model_file.weight_sizes(path))) > BUDGET.bytes.reference_weights:
        return ""
    try:
        part = _part(onnx.load(path), given, name)
        feeds = {value.name: given[value.name] for value in part.graph.input}
        if sum(t.numel() for t in feeds.values()) > BUDGET.elements.reference:
            return ""
        with np.errstate(all="ignore"):
            made = ReferenceEvaluator(part, new_ops=[*kernels]).run(
                None, {key: t.numpy() for key, t in feeds.items()}
            )
        wants = [tensor_bytes.of_numpy(each) for each in made]
        results = Session(part.SerializeToString(), optimized=False).run(feeds)
    except Exception:  # the evaluator lacks operators and dtypes, and raises any kind of error
        return ""
    names = [output.name for output in part.graph.output]
    if compared(wants[names.index(name)], want, 1).problem:
        return ""
    makers = {output: node.op_type for node in part.graph.node for output in node.output}
    pairs = zip(names, results, wants)
    return next((makers[key] for key, got, each in pairs if compared(got, each, 1).problem), "")


def _part(model: onnx.ModelProto, given: Mapping[str, torch.Tensor], name: str) -> onnx.ModelProto:
    """Return the nodes of a file that make a value of given ones, with all their results."""
    import onnx

    from ... import dtypes
    from .beside import read

    needed = {name}
    nodes: list[onnx.NodeProto] = []
    for node in reversed(model.graph.node):
        made = needed.intersection(node.output)
        if made and (name in made or not made <= given.keys()):
            nodes.append(node)
            needed.update(each for each in read(node))
    used = {each for node in nodes for each in read(node)}
    weights = [each for each in model.graph.initializer if each.name in used]
    own = {each for node in nodes for each in node.output} - given.keys() | {name}
    for node in nodes:
        node.output[:] = [
            each if each in own else each and f"{each}::unused" for each in node.output
        ]
    inputs = [
        onnx.helper.make_tensor_value_info(each, dtypes.number(given[each].dtype), None)
        for each in sorted(used & given.keys() - {name})
    ]
    outputs = [
        onnx.ValueInfoProto(name=each) for node in nodes[::-1] for each in node.output if each
    ]
    graph = onnx.helper.make_graph(nodes[::-1], "part", inputs, outputs, weights)
    return onnx.helper.make_model(
        graph,
        opset_imports=model.opset_import,
        functions=model.functions,
        ir_version=model.ir_version,
    )


def _dequantizer() -> type:
    """Return the newest operator for opsets before 19, for which onnx implements none.

    It does the same, and reads more dtypes.
    """
    from onnx.reference.ops import op_dequantize_linear as module

    newest = [kind for name, kind in vars(module).items() if name.startswith("DequantizeLinear_")]
    return type("DequantizeLinear", (newest[-1],), {"op_domain": ""})

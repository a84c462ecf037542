"""Longest reduction of a graph, which the tolerance follows beside the depth.

The error of a sum of n numbers is about the square root of n roundings, in whatever order it is
computed, and PyTorch and onnxruntime use different orders: a running sum of 2**17 numbers differs
by 6e-6 of its largest value. The sizes are those that the file declares for its values, evaluated
at a case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...graph.file_nodes import bodies_of
from ..declared import Unknown, evaluate

if TYPE_CHECKING:
    import onnx

_Shape = Sequence[float]


def longest_reduction(model: onnx.ModelProto, sizes: Mapping[str, int]) -> int:
    """Return the length of the longest sum in the graph, as far as the file declares shapes."""
    return _longest(model.graph, dict(sizes), {}, {})


def _longest(graph: Any, sizes: dict[str, int], outer: dict[str, _Shape], known: dict) -> int:
    shapes = outer | {
        value.name: [_number(dim, sizes, known) for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info, *graph.output)
        if value.type.tensor_type.HasField("shape")
    }
    shapes |= {weight.name: list(weight.dims) for weight in graph.initializer}
    longest = 1.0
    for node in graph.node:
        for body in bodies_of(node):
            longest = max(longest, _longest(body, sizes, shapes, known))
        found = _LENGTHS.get(node.op_type)
        if found is None and node.op_type.startswith("Reduce") and node.op_type not in _EXACT:
            found = _of_reduction
        if found is None:
            continue
        inputs = [shapes.get(name) for name in node.input]
        length = found(node, inputs, [shapes.get(name) for name in node.output])
        longest = max(longest, length if math.isfinite(length) else 1.0)
    return int(longest)


def _number(dim: Any, sizes: Mapping[str, int], known: dict[str, float]) -> float:
    """Return the size of an axis, or NaN if it is not fixed in the file."""
    if not dim.dim_param:
        return dim.dim_value if dim.HasField("dim_value") else math.nan
    if dim.dim_param not in known:
        try:
            known[dim.dim_param] = evaluate(dim.dim_param, sizes)
        except Unknown:
            known[dim.dim_param] = math.nan
    return known[dim.dim_param]


_Shapes = Sequence["_Shape | None"]


def _of_reduction(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    if inputs[0] is None or outputs[0] is None:
        return math.nan
    return math.prod(inputs[0]) / max(math.prod(outputs[0]), 1)


def _of_axis(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    """Return an upper limit for a reduction along one axis, which is an input or an attribute."""
    return max(inputs[0] or (), default=1)


def _of_all_axes(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    return math.prod((inputs[0] or ())[1:])


def _of_product(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    first = inputs[0] or (1,)
    return first[0 if _attribute(node, "transA", 0) and len(first) == 2 else -1]


def _of_filter(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    return math.prod((inputs[1] or ())[1:])


def _of_turned_filter(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    weight = inputs[1] or (1, 1)
    return math.prod(weight) / max(weight[1], 1)


def _of_window(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    return math.prod(_attribute(node, "kernel_shape", ()))


def _of_recurrence(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    return max((inputs[0] or (1,))[0], *(inputs[1] or (1,))[1:], *(inputs[2] or (1,))[1:])


def _of_updates(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    adds = _attribute(node, "reduction", b"none") in (b"add", b"mul")
    return math.prod(inputs[2] or ()) if adds else 1


def _of_sum_of_products(node: Any, inputs: _Shapes, outputs: _Shapes) -> float:
    terms, _, made = _attribute(node, "equation", b"").decode().replace(" ", "").partition("->")
    sizes = {
        letter: size
        for term, shape in zip(terms.split(","), inputs)
        if shape is not None and "." not in term
        for letter, size in zip(term, shape)
    }
    return math.prod(size for letter, size in sizes.items() if letter not in made)


def _attribute(node: Any, name: str, default: Any) -> Any:
    found = next((a for a in node.attribute if a.name == name), None)
    if found is None:
        return default
    by_type: dict[int, Any] = {2: found.i, 3: found.s, 7: list(found.ints)}
    return by_type.get(found.type, default)


_EXACT = ("ReduceMax", "ReduceMin")  # these add nothing up

_LENGTHS: dict[str, Callable[[Any, _Shapes, _Shapes], float]] = {
    **dict.fromkeys(("CumSum", "Softmax", "LogSoftmax", "DFT", "LpNormalization"), _of_axis),
    **dict.fromkeys(("GlobalAveragePool", "LayerNormalization", "InstanceNormalization"), _of_all_axes),
    **dict.fromkeys(("GroupNormalization", "RMSNormalization", "Attention"), _of_all_axes),
    **dict.fromkeys(("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"), _of_product),
    **dict.fromkeys(("Conv", "ConvInteger", "DeformConv"), _of_filter),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _of_recurrence),
    **dict.fromkeys(("ScatterElements", "ScatterND"), _of_updates),
    **dict.fromkeys(("AveragePool", "LpPool"), _of_window),
    "ConvTranspose": _of_turned_filter,
    "Einsum": _of_sum_of_products,
}  # fmt: skip

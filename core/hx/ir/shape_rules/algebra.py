"""Products, reductions, recurrences."""

from __future__ import annotations

from ..shapes import axis_of, broadcast, elements, numbers, shape_of
from ._rule import rule


@rule("MatMul", "MatMulInteger")
def _matmul(inputs, attributes, count):
    a, b = shape_of(inputs[0]), shape_of(inputs[1])
    if len(a) == 1 and len(b) == 1:
        return [()]
    if len(a) == 1:
        return [b[:-2] + b[-1:]]
    if len(b) == 1:
        return [a[:-1]]
    return [(*broadcast(a[:-2], b[:-2]), a[-2], b[-1])]


@rule("Gemm")
def _gemm(inputs, attributes, count):
    a, b = shape_of(inputs[0]), shape_of(inputs[1])
    return [
        (a[1] if attributes.get("transA") else a[0], b[0] if attributes.get("transB") else b[1])
    ]


@rule("Einsum")
def _einsum(inputs, attributes, count):
    equation = attributes["equation"].replace(" ", "")
    if "..." in equation or "->" not in equation:
        return None
    left, right = equation.split("->")
    sizes: dict[str, int] = {}
    for term, value in zip(left.split(","), inputs):
        for letter, n in zip(term, shape_of(value)):
            if letter not in sizes or (type(sizes[letter]) is int and sizes[letter] == 1):
                sizes[letter] = n
    return [tuple(sizes[letter] for letter in right)]


@rule("Det")
def _det(inputs, attributes, count):
    return [shape_of(inputs[0])[:-2]]


@rule(*[f"Reduce{k}" for k in ("Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare").split()])
def _reduce(inputs, attributes, count):
    x = shape_of(inputs[0])
    keep = attributes.get("keepdims", 1)
    if len(inputs) > 1 and inputs[1] is not None:
        axes = {axis_of(a, len(x)) for a in elements(inputs[1])}
        if not axes and attributes.get("noop_with_empty_axes"):
            return [x]
    elif attributes.get("noop_with_empty_axes"):
        return [x]
    else:
        axes = {axis_of(a, len(x)) for a in attributes.get("axes") or ()}  # before opset 18
    axes = axes or set(range(len(x)))
    if keep:
        return [tuple(1 if i in axes else n for i, n in enumerate(x))]
    return [tuple(n for i, n in enumerate(x) if i not in axes)]


@rule("ArgMax", "ArgMin")
def _arg(inputs, attributes, count):
    x = list(shape_of(inputs[0]))
    axis = axis_of(attributes.get("axis", 0), len(x))
    x[axis : axis + 1] = [1] if attributes.get("keepdims", 1) else []
    return [tuple(x)]


@rule("TopK")
def _topk(inputs, attributes, count):
    x = list(shape_of(inputs[0]))
    (k,) = numbers(inputs[1])
    x[axis_of(attributes.get("axis", -1), len(x))] = k
    return [tuple(x)] * count


@rule("LSTM", "GRU", "RNN")
def _recurrent(inputs, attributes, count):
    steps, batch, _ = shape_of(inputs[0])
    directions, hidden = shape_of(inputs[1])[0], attributes["hidden_size"]
    state = (directions, batch, hidden)
    return [(steps, directions, batch, hidden), state, state][:count]


@rule("Attention")
def _attention(inputs, attributes, count):
    q, v = shape_of(inputs[0]), shape_of(inputs[2])
    if len(q) != 4:
        return None
    return [(*q[:-1], v[-1])] + [None] * (count - 1)

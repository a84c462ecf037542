"""Matrix products."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch


@converter("torch.nn.functional.linear",
           cases=[case("float32[n,4]", "float32[3,4]", "float32[3]"),
                  case("float32[n,5,4]", "float32[3,4]")])  # fmt: skip
def linear(op, input, weight, bias=None):
    if input.rank == 2:
        return op.Gemm(input, weight, bias, transB=1)
    y = op.MatMul(input, op.Transpose(weight, perm=[1, 0]) if weight.rank == 2 else weight)
    return y if bias is None else op.Add(y, bias)


@converter("torch.matmul", "torch.mm", "torch.bmm", "torch.mv", "torch.dot",
           cases=[case("float32[n,3,4]", "float32[n,4,5]")])  # fmt: skip
def matmul(op, input, other):
    return op.MatMul(input, other)


@converter("torch.addmm", cases=[case("float32[5]", "float32[n,4]", "float32[4,5]")])
def addmm(op, input, mat1, mat2, *, beta=1, alpha=1):
    if input.rank > 2 or not mat1.dtype.is_floating_point:
        return op.Add(op.Mul(input, beta), op.Mul(op.MatMul(mat1, mat2), alpha))
    return op.Gemm(mat1, mat2, input, alpha=float(alpha), beta=float(beta))


@converter("torch.baddbmm", cases=[case("float32[n,3,5]", "float32[n,3,4]", "float32[n,4,5]")])
def baddbmm(op, input, batch1, batch2, *, beta=1, alpha=1):
    y = op.MatMul(batch1, batch2)
    y = y if alpha == 1 else op.Mul(y, alpha)
    if beta == 0:
        return y
    return op.Add(input if beta == 1 else op.Mul(input, beta), y)


@converter("torch.nn.functional.grouped_mm", "torch._grouped_mm", "torch.ops.aten._grouped_mm",
           cases=[])  # fmt: skip
def grouped_mm(op, mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Each group of rows times its own matrix: the experts of a mixture, one product each."""
    if offs is None or mat_a.rank != 2 or mat_b.rank != 3 or type(mat_b.shape[0]) is not int:
        return NotImplemented
    groups, ends = mat_b.shape[0], op.cast(offs, torch.int64)
    # What lies behind the last group is left undefined by PyTorch: it joins the last one.
    whole = op.Concat(op.Slice(ends, [0], [-1], [0]), op.sizes([mat_a.shape[0]]), axis=0)
    starts = op.Concat([0], op.Slice(ends, [0], [-1], [0]), axis=0)
    rows = op.Split(mat_a, op.Sub(whole, starts), axis=0, outputs=groups)
    experts = op.Split(mat_b, [1] * groups, axis=0, outputs=groups)
    if groups == 1:
        rows, experts = [mat_a], [mat_b]
    parts = [op.MatMul(x, w) for x, w in zip(rows, experts)]
    y = op.Reshape(op.Concat(*parts, axis=1), op.sizes([mat_a.shape[0], mat_b.shape[2]]))
    y = y if bias is None else op.Add(y, bias)
    return op.cast(y, op.result.dtype)


@converter("torch.outer", cases=[case("float32[n]", "float32[3]")])
def outer(op, input, vec2):
    return op.Mul(op.Unsqueeze(input, [1]), op.Unsqueeze(vec2, [0]))


@converter("torch.einsum", "torch.functional.einsum", cases=[])
def einsum(op, equation, *operands):
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not isinstance(equation, str) or not operands[0].dtype.is_floating_point:
        return NotImplemented
    dtype = op.result.dtype
    return op.Einsum(*[op.cast(x, dtype) for x in operands], equation=_with_arrow(equation))


def _with_arrow(equation):
    """ONNX reads an equation without an arrow the same way; spaces are dropped."""
    equation = equation.replace(" ", "")
    if "->" in equation:
        return equation
    letters = equation.replace(",", "").replace(".", "")
    once = sorted(c for c in set(letters) if letters.count(c) == 1)
    return f"{equation}->{'...' if '...' in equation else ''}{''.join(once)}"



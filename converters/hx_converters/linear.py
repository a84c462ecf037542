"""Matrix products."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import as_result, reshaped, scaled
from ._halves import rounded_once
from ._sparse import product, settled


@converter("torch.nn.functional.linear",
           cases=[case("float32[n,4]", "float32[3,4]", "float32[3]"),
                  case("float32[n,5,4]", "float32[3,4]"),
                  case("float32[n,4]", "float32[4]")])  # fmt: skip
def linear(op, input, weight, bias=None):
    weight = settled(op, weight)
    if op.is_sparse(input) or op.is_sparse(weight):
        return NotImplemented
    if input.rank == weight.rank == 2:
        return op.Gemm(input, weight, bias, transB=1)
    y = op.MatMul(input, op.Transpose(weight, perm=[1, 0]) if weight.rank == 2 else weight)
    return y if bias is None else op.Add(y, bias)


@converter("torch.dot", cases=[case("float32[n]", "float32[n]")])
@converter("torch.mv", cases=[case("float32[n,4]", "float32[4]")])
@converter("torch.mm", "torch.spmm", "torch.dsmm", cases=[case("float32[n,4]", "float32[4,5]")])
@converter("torch.matmul", "torch.bmm", cases=[case("float32[n,3,4]", "float32[n,4,5]")])
def matmul(op, input, other):
    input, other = settled(op, input), settled(op, other)
    if op.is_sparse(input) or op.is_sparse(other):
        return product(op, input, other)
    y = op.MatMul(input, other)
    if type(input.shape[-1]) is int and input.shape[-1] == 0:
        # Empty sums, which onnxruntime does not write.
        return op.Expand(op.constant(0, y.dtype), op.sizes(y.shape))
    return y


@converter("torch.sparse.mm", cases=[case("float32[n,4]", "float32[4,5]")])
def sparse_mm(op, mat1, mat2, reduce="sum"):
    # Outside of sums, missing elements are not read.
    return matmul(op, mat1, mat2) if reduce == "sum" else NotImplemented


@converter(
    "torch.addmm", "torch.sparse.addmm", cases=[case("float32[5]", "float32[n,4]", "float32[4,5]")]
)
def addmm(op, input, mat1, mat2, *, beta=1, alpha=1):
    input, mat1, mat2 = (settled(op, x) for x in (input, mat1, mat2))
    if op.is_sparse(mat1) or op.is_sparse(mat2):
        product = matmul(op, mat1, mat2)
        return product if product is NotImplemented else added(op, input, product, beta, alpha)
    inner, known = mat1.shape[1], all(type(n) in (int, float) for n in (beta, alpha))
    # onnxruntime's Gemm does not write its output if the sum is empty.
    nothing = type(inner) is int and inner == 0
    if input.rank > 2 or not mat1.dtype.is_floating_point or nothing or not known:
        return added(op, input, matmul(op, mat1, mat2), beta, alpha)
    return op.Gemm(mat1, mat2, input, alpha=float(alpha), beta=float(beta))


def added(op, input, product, beta, alpha):
    """Return beta * input + alpha * product; if beta is 0, `input` is ignored, NaN included."""
    y = scaled(op, product, alpha)
    return y if op.same(beta, 0) else op.Add(scaled(op, input, beta), y)


@converter("torch.baddbmm", cases=[case("float32[n,3,5]", "float32[n,3,4]", "float32[n,4,5]")])
@rounded_once
def baddbmm(op, input, batch1, batch2, *, beta=1, alpha=1):
    return added(op, input, matmul(op, batch1, batch2), beta, alpha)


@converter("torch.addbmm", cases=[case("float32[3,5]", "float32[n,3,4]", "float32[n,4,5]")])
@rounded_once
def addbmm(op, input, batch1, batch2, *, beta=1, alpha=1):
    total = op.ReduceSum(matmul(op, batch1, batch2), [0], keepdims=0)
    return added(op, input, total, beta, alpha)


@converter("torch.addmv", cases=[case("float32[n]", "float32[n,4]", "float32[4]")])
@rounded_once
def addmv(op, input, mat, vec, *, beta=1, alpha=1):
    return added(op, input, matmul(op, mat, vec), beta, alpha)


@converter("torch.addr", cases=[case("float32[n,3]", "float32[n]", "float32[3]")])
@rounded_once
def addr(op, input, vec1, vec2, *, beta=1, alpha=1):
    dtype = op.result.dtype
    times = op.And if dtype == torch.bool else op.Mul
    product = times(op.Unsqueeze(op.cast(vec1, dtype), [1]), op.cast(vec2, dtype))
    if dtype == torch.bool:
        both = op.And(product, op.constant(bool(alpha)))
        return op.Or(op.And(input, op.constant(bool(beta))), both)
    return added(op, op.cast(input, dtype), product, beta, alpha)


@converter("torch.vdot", cases=[case("float32[n]", "float32[n]")])
def vdot(op, input, other):
    return op.MatMul(input, other)


@converter("torch.nn.functional.bilinear", "torch.bilinear",
           cases=[case("float32[n,3]", "float32[n,4]", "float32[5,3,4]", "float32[5]")])  # fmt: skip
@rounded_once
def bilinear(op, input1, input2, weight, bias=None):
    out, left, right = weight.shape
    flat = op.Reshape(op.Transpose(weight, perm=[1, 0, 2]), op.sizes([left, out * right]))
    halves = reshaped(op, op.MatMul(input1, flat), [*input1.shape[:-1], out, right])
    y = op.Squeeze(op.MatMul(halves, op.Unsqueeze(input2, [input2.rank])), [input1.rank])
    return y if bias is None else op.Add(y, bias)


def _ends():
    return torch.tensor([2, 6], dtype=torch.int32)


@converter("torch.nn.functional.grouped_mm", "torch._grouped_mm", "torch.ops.aten._grouped_mm",
           cases=[case("bfloat16[6,8]", "bfloat16[2,8,16]", offs=_ends)])  # fmt: skip
def grouped_mm(op, mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Multiply each group of rows by its own matrix, as the experts of a mixture do."""
    if offs is None or mat_a.rank != 2 or mat_b.rank != 3 or type(mat_b.shape[0]) is not int:
        return NotImplemented
    groups, ends = mat_b.shape[0], op.cast(offs, torch.int64)
    # PyTorch leaves rows after the last group undefined: here they join the last group.
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


@converter("torch.outer", "torch.ger", cases=[case("float32[n]", "float32[3]")])
def outer(op, input, vec2):
    x, y = as_result(op, input, vec2)
    return op.Mul(op.Unsqueeze(x, [1]), op.Unsqueeze(y, [0]))

"""Complex numbers in a graph of real ones: a complex value is two real values of one shape.

ONNX has complex dtypes, and hardly an operator that takes them. So no node reads or writes a
complex edge. What a converter writes for complex values is written here for their real and their
imaginary parts: apart from each other where an operator only moves or adds numbers up, and by the
rule of the operator where it mixes the two. An operator without a rule refuses complex values.

None stands for an imaginary part that is zero everywhere. Inputs and outputs of the graph, and
complex weights, have both parts in one tensor, as the last axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from .. import dtypes
from ..errors import Unsupported
from ..ir import shapes
from ..ir.value import Absent, Constant, Value
from . import schemas, sparse_values
from .operator_forms import OperatorForms, listed
from .writers import GraphWriter, OpWriter

Parts = tuple[Value, Value | None]

REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
COMPLEX = {real: whole for whole, real in REAL.items()}


def concerned(inputs: list, attributes: dict) -> bool:
    """Return True if a node reads or writes complex numbers."""
    to = attributes.get("to")
    if isinstance(to, torch.dtype) and to.is_complex:
        return True
    for x in inputs:
        if isinstance(x, (Value, torch.Tensor)):
            if x.dtype is not None and x.dtype.is_complex:
                return True
        elif isinstance(x, complex):
            return True
    return False


# A complex value, and its parts.


def value(op: OpWriter, real: Value, imaginary: Value | None = None) -> Value:
    """A complex value of two real ones; the imaginary part is broadcast to the shape of the real."""
    if imaginary is not None and not shapes.same_shape(real.shape, imaginary.shape):
        imaginary = op.Expand(imaginary, _sizes(op, real))
    if real.dtype not in COMPLEX:
        raise Unsupported("a graph cannot hold complex32", hint="cast to float32 first")
    made = op._builder.value(COMPLEX[real.dtype], real.shape)
    made.dynamic, made.parts = real.dynamic, (real, imaginary)
    made.fixed = real.fixed and (imaginary is None or imaginary.fixed)
    return made


def parts(op: OpWriter, z: Value) -> Parts:
    if z.sparse is not None:
        raise sparse_values.edge("a node")
    if z.parts is None:
        if not isinstance(z, Constant):
            raise Unsupported(
                f"a complex value ({z!r}) occurs where only real values are allowed",
                why="bodies of loops and branches, and operators of other domains, take no complex values",
                hint="call torch.view_as_real before it, and torch.view_as_complex after it",
            )
        return _of_constant(op, z)
    for part in z.parts:
        if part is not None and part.shape is None and z.shape is not None:
            part.sized(z.shape)  # it became known when the call had run
    return z.parts


def _of_constant(op: OpWriter, z: Constant) -> Parts:
    if z.name or isinstance(z, Absent):
        return split(op, pair(op, z))
    real, imaginary = torch.view_as_real(z.tensor.resolve_conj()).unbind(-1)
    made = []
    for part in (real, imaginary):
        made.append(op._builder.constant(part.clone(memory_format=torch.contiguous_format)))
        made[-1].frozen = True
    z.parts = made[0], None if _is_nothing(imaginary) else made[1]
    return z.parts


def _is_nothing(x: torch.Tensor) -> bool:
    """Return True if all elements are +0: at a branch cut, the sign of a 0 matters too."""
    return not bool(x.any()) and not bool(x.signbit().any())


def split(op: OpWriter, pair: Value) -> Parts:
    """Split a value with both parts as its last axis."""
    return op.Gather(pair, 0, axis=-1), op.Gather(pair, 1, axis=-1)


def joined(op: OpWriter, pair: Value) -> Value:
    """A complex value of a real one that has both parts as its last axis."""
    made = value(op, *split(op, pair))
    made.pair = pair
    return made


def pair(op: OpWriter, z: Value) -> Value:
    """Both parts in one real value, as its last axis."""
    if z.pair is None and isinstance(z, Constant) and z.parts is None:
        if isinstance(z, Absent) or z.dtype not in REAL:
            what = "whose contents are elsewhere" if isinstance(z, Absent) else f"of {z.dtype}"
            raise Unsupported(f"a graph cannot hold a complex weight {what}")
        z.pair = op._builder.kept(torch.view_as_real(z.tensor.resolve_conj()), z.name)
    if z.pair is not None:
        return z.pair
    both = [op.Unsqueeze(part, [-1]) for part in full(op, z)]
    return op.Concat(*both, axis=-1)


def full(op: OpWriter, z: Value) -> tuple[Value, Value]:
    """Both parts, with zeros written out."""
    real, imaginary = parts(op, z)
    return real, _zeros(op, real) if imaginary is None else imaginary


def stand_in(builder: GraphWriter, dtype: torch.dtype, shape: Any) -> Value:
    """A placeholder for a value without a converter: it is never written to a file."""
    made = builder.value(dtype, shape)
    if dtype in REAL:
        made.parts = builder.value(REAL[dtype], shape), builder.value(REAL[dtype], shape)
    return made


def _sizes(op: OpWriter, x: Value) -> Value:
    return op.Shape(x) if x.shape is None else op.sizes(x.shape)


def _zeros(op: OpWriter, like: Value, zero: float = 0.0) -> Value:
    number = op.constant(zero, like.dtype)
    return number if like.shape == () else op.Expand(number, _sizes(op, like))


# Nodes.

# Forms of operators on complex values: f(op, *inputs, **attributes).
RULES = OperatorForms()


# Zeros of any shape do here.
BROADCASTS = frozenset({"Add", "Sub", "Where"})

# They move numbers or add them up, and never look at one.
APART = frozenset(
    """Add Compress Concat CumSum DepthToSpace Expand Flatten Gather GatherElements GatherND
    Identity Pad ReduceMean ReduceSum Reshape ReverseSequence ScatterElements ScatterND Slice
    SpaceToDepth Split Squeeze Sub Tile Transpose Trilu Unsqueeze Where""".split()
)


def emit(op: OpWriter, name: str, inputs: list, attributes: dict, count: int | None) -> list[Value]:
    """Write one operator on complex values."""
    written = RULES.get(name)
    if written is None and name not in APART:
        raise Unsupported(
            f"ONNX has no {name} of complex numbers",
            hint="apply abs(), .real, .imag or torch.view_as_real first",
        )
    values = _lifted(op, name, inputs)
    if written is not None:
        attributes = {k: v for k, v in attributes.items() if v is not None}
        return listed(written(op, *values, **attributes))
    return _apart(op, name, values, attributes, count)


def _lifted(op: OpWriter, name: str, inputs: list) -> list[Value | None]:
    """All inputs as values; a real one beside a complex one of the same kind becomes complex."""
    schema = schemas.schema(name)
    assert schema is not None
    wide = any(getattr(x, "dtype", None) in (torch.float64, torch.complex128) for x in inputs)
    kind = torch.complex128 if wide else torch.complex64
    given = [op.constant(x, kind) if isinstance(x, complex) else x for x in inputs]
    values = op._builder.lifted(schema, given)
    found = [v for v in values if v is not None and v.dtype.is_complex]
    for one in found:
        if one.dtype not in REAL:
            raise Unsupported(f"a graph cannot hold {dtypes.name(one.dtype)}")
    if not found:
        return values
    dtype = max((v.dtype for v in found), key=lambda d: d.itemsize)
    kinds = {
        schema.in_type(i) for i, v in enumerate(values) if v is not None and v.dtype.is_complex
    }
    return [
        op.cast(v, dtype) if v is not None and schema.in_type(i) in kinds else v
        for i, v in enumerate(values)
    ]


def _apart(
    op: OpWriter, name: str, values: list, attributes: dict, count: int | None
) -> list[Value]:
    if attributes.get("reduction") not in (None, "none", "add"):
        raise Unsupported(f"{name} with {attributes['reduction']} of complex numbers has no form")
    split = [parts(op, v) if v is not None and v.dtype.is_complex else v for v in values]
    zero = [part[1] is None for part in split if isinstance(part, tuple)]

    def filler(like: Value) -> Value:
        return op.constant(0.0, like.dtype) if name in BROADCASTS else _zeros(op, like)

    def node(side: int) -> tuple[Value, ...]:
        inputs = [
            part if not isinstance(part, tuple)
            else filler(part[0]) if part[side] is None
            else part[side]
            for part in split
        ]  # fmt: skip
        return getattr(op, name)(*inputs, outputs=count or 1, **attributes)

    real = node(0)
    imaginary = [None] * len(real) if all(zero) else node(1)
    return [value(op, *both) for both in zip(real, imaginary)]


def _product(op: OpWriter, multiply: Callable, *factors: Value) -> Value:
    """Multiply by a function linear in each factor: a sum over parts, by their power of i."""
    total: list[Value | None] = [None, None]
    choices = [[(0, real), (1, imaginary)] for real, imaginary in (parts(op, z) for z in factors)]
    for chosen in itertools.product(*choices):
        if any(part is None for _, part in chosen):
            continue
        power = sum(side for side, _ in chosen)
        term, minus, before = multiply(*(p for _, p in chosen)), power % 4 > 1, total[power % 2]
        if before is None:
            total[power % 2] = op.Neg(term) if minus else term
        else:
            total[power % 2] = (op.Sub if minus else op.Add)(before, term)
    assert total[0] is not None
    return value(op, total[0], total[1])


@RULES.of("Mul")
def multiplied(op, x, y):
    return _product(op, op.Mul, x, y)


@RULES.of("MatMul")
def matrix_product(op, x, y):
    return _product(op, op.MatMul, x, y)


@RULES.of("Einsum")
def einsum(op, *inputs, equation):
    return _product(op, lambda *xs: op.Einsum(*xs, equation=equation), *inputs)


@RULES.of("Gemm")
def general_product(op, a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    a, b = (op.Transpose(x, perm=[1, 0]) if t else x for x, t in ((a, transA), (b, transB)))
    y = op.MatMul(a, b)
    y = y if alpha == 1 else op.Mul(y, alpha)
    return y if c is None else op.Add(y, c if beta == 1 else op.Mul(c, beta))


@RULES.of("Conv", "ConvTranspose")
def convolved(op, x, w, bias=None, *, name, **attributes):
    y = _product(op, lambda x, w: getattr(op, name)(x, w, **attributes), x, w)
    return y if bias is None else op.Add(y, op.Unsqueeze(bias, list(range(1, w.rank - 1))))


@RULES.of("Neg")
def negative(op, x):
    real, imaginary = parts(op, x)
    return value(
        op, op.Neg(real), _zeros(op, real, -0.0) if imaginary is None else op.Neg(imaginary)
    )


def _wide(op, *xs):
    """Cast to float64, where the square of a float32 never overflows."""
    return [None if x is None else op.cast(x, torch.float64) for x in xs]


def _times(op, x, y):
    return None if x is None or y is None else op.Mul(x, y)


def _plus(op, x, y, sign=1):
    if x is None or y is None:
        return x if y is None else y if sign > 0 else op.Neg(y)
    return op.Add(x, y) if sign > 0 else op.Sub(x, y)


@RULES.of("Div")
def quotient(op, x, y):
    (a, b), (c, d) = parts(op, x), parts(op, y)
    if d is None:
        return value(op, op.Div(a, c), None if b is None else op.Div(b, c))
    real = a.dtype
    a, b, c, d = _wide(op, a, b, c, d)
    size = op.Add(op.Mul(c, c), op.Mul(d, d))
    along = _plus(op, op.Mul(a, c), _times(op, b, d))
    across = _plus(op, _times(op, b, c), op.Mul(a, d), -1)
    return value(op, *(op.cast(op.Div(v, size), real) for v in (along, across)))


@RULES.of("Reciprocal")
def reciprocal(op, x):
    return op.Div(op.constant(1, x.dtype), x)


@RULES.of("Abs")
def absolute(op, x):
    real, imaginary = parts(op, x)
    if imaginary is None:
        return op.Abs(real)
    a, b = _wide(op, real, imaginary)
    return op.cast(op.Sqrt(op.Add(op.Mul(a, a), op.Mul(b, b))), real.dtype)


@RULES.of("ReduceL1", "ReduceL2")
def length(op, x, axes=None, *, name, **attributes):
    return getattr(op, name)(op.Abs(x), axes, **attributes)


@RULES.of("Equal")
def equal(op, x, y):
    (a, b), (c, d) = parts(op, x), parts(op, y)
    same = op.Equal(a, c)
    if b is None and d is None:
        return same
    return op.And(same, op.Equal(0.0 if b is None else b, 0.0 if d is None else d))


@RULES.of("IsNaN", "IsInf")
def either(op, x, *, name, **attributes):
    found = [getattr(op, name)(part, **attributes) for part in parts(op, x) if part is not None]
    return found[0] if len(found) == 1 else op.Or(*found)


@RULES.of("Shape")
def shape(op, x, **attributes):
    return op.Shape(parts(op, x)[0], **attributes)


@RULES.of("Size")
def size(op, x):
    return op.Size(parts(op, x)[0])


@RULES.of("NonZero")
def not_zero(op, x):
    return op.NonZero(op.cast(x, torch.bool))


@RULES.of("EyeLike")
def identity(op, x, **attributes):
    return value(op, op.EyeLike(parts(op, x)[0], **attributes))


@RULES.of("Cast")
def cast(op, x, to):
    """Cast a complex number: a real type keeps the real part, bool tests both parts."""
    if not x.dtype.is_complex:
        return value(op, op.cast(x, _real_dtype(to)))
    real, imaginary = parts(op, x)
    if to == torch.bool:
        found = [op.cast(part, to) for part in (real, imaginary) if part is not None]
        return found[0] if len(found) == 1 else op.Or(*found)
    if not to.is_complex:
        return op.cast(real, to)
    kind = _real_dtype(to)
    return value(op, op.cast(real, kind), None if imaginary is None else op.cast(imaginary, kind))


def _real_dtype(dtype: torch.dtype) -> torch.dtype:
    if dtype not in REAL:
        raise Unsupported(f"a graph cannot hold {dtypes.name(dtype)}")
    return REAL[dtype]

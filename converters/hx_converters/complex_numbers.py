"""Complex numbers: their parts, and functions of them."""

from __future__ import annotations

import functools
import math

from hx import case, converter
from hx.lazy import torch

from . import cumulative, linalg_solving, reduction, shape
from ._common import axes_of, below_zero, one_axis, scalars_too
from .arithmetic import turned
from .reduction import vector_norm

Z, ONE, TWO = "complex64[n,3]", [case("complex64[n,3]")], [case("complex64[n,3]", "complex64[n,3]")]

CONVERTERS: list = []


# Their parts.


@converter("torch.view_as_complex", "torch.view_as_complex_copy", cases=[case("float32[n,3,2]")])
def view_as_complex(op, input):
    return op.joined(input)


@converter("torch.view_as_real", "torch.view_as_real_copy", complex=True, cases=ONE)
def view_as_real(op, input):
    return op.pair(input)


@converter("torch.complex", cases=[case("float32[n,3]", "float32[n,3]")])
def complex(op, real, imag):
    if not op.same(real.shape, imag.shape):
        real = op.Where(True, real, imag)  # as large as both
    return op.complex(real, imag)


@converter("torch.polar", cases=[case("float32[n,3]", "float32[n,3]")])
def polar(op, abs, angle):
    return op.complex(op.Mul(abs, op.Cos(angle)), op.Mul(abs, op.Sin(angle)))


@converter("torch.real", "torch.Tensor.real.__get__", complex=True, cases=ONE)
def real(op, input):
    return op.parts(input)[0]


@converter("torch.imag", "torch.Tensor.imag.__get__", complex=True, cases=ONE)
def imag(op, input):
    return op.parts(input, whole=True)[1]


@converter("torch.real", "torch.Tensor.real.__get__", "torch.conj", "torch.conj_physical",
           "torch.ops.aten._conj", "torch.ops.aten._neg_view", cases=[])  # fmt: skip
def itself(op, input):
    return input


@converter("torch.conj", "torch.conj_physical", "torch.ops.aten._conj",
           "torch.ops.aten._conj_physical", complex=True, cases=ONE)  # fmt: skip
def conj(op, input):
    real, imaginary = op.parts(input, whole=True)
    return op.complex(real, op.Neg(imaginary))


@converter("torch.adjoint", "torch.Tensor.mH.__get__", "torch.Tensor.H.__get__", complex=True,
           cases=ONE)  # fmt: skip
def adjoint(op, input):
    return conj(op, shape.transpose(op, input, -1, -2) if input.rank > 1 else input)


@converter("torch.adjoint", "torch.Tensor.mH.__get__", "torch.Tensor.H.__get__", cases=[])
def real_adjoint(op, input):
    return shape.transpose(op, input, -1, -2) if input.rank > 1 else input


def _cast(dtype):
    def convert(op, self, *args, **kwargs):
        return op.cast(self, getattr(torch, dtype))

    return convert


CONVERTERS += [
    converter(f"torch.Tensor.{name}", complex=kind[0] == "c", cases=[case(f"{kind}[n,3]")])(
        _cast(dtype)
    )
    for name, dtype in (("cfloat", "complex64"), ("cdouble", "complex128"))
    for kind in ("float32", "complex64")
]


@converter("torch.abs", "torch.absolute", complex=True, cases=ONE)
def abs(op, input):
    return op.Abs(input)


@converter("torch.angle", complex=True, cases=[*ONE, case("complex128[n,3]")])
def angle(op, input):
    """Compute the angle; for float64, which onnxruntime's Atan lacks, float32 and a Newton step."""
    x, y = op.parts(input, whole=True)
    if x.dtype == torch.float32:
        return turned(op, y, x)
    near = op.cast(turned(op, *(op.cast(v, torch.float32) for v in (y, x))), x.dtype)
    c, s = op.Cos(near), op.Sin(near)
    along, across = op.Add(op.Mul(x, c), op.Mul(y, s)), op.Sub(op.Mul(y, c), op.Mul(x, s))
    safe = op.And(op.Greater(along, 0), op.Less(along, math.inf))
    return op.Add(near, op.Where(safe, op.Div(across, op.Where(safe, along, 1)), 0))


@converter("torch.sgn", complex=True, cases=ONE)
def sgn(op, input):
    size = op.Abs(input)
    return op.Div(input, op.Where(op.Equal(size, 0), 1, size))


@converter("torch.isfinite", complex=True, cases=ONE)
def isfinite(op, input):
    return op.Not(op.Or(op.IsInf(input), op.IsNaN(input)))


@converter("torch.isreal", complex=True, cases=ONE)
def isreal(op, input):
    return op.Equal(op.parts(input, whole=True)[1], 0)


# Functions, computed in float64 to keep enough digits of a small part beside a large one.


def exp(op, z):
    real, imaginary = op.parts(z, whole=True)
    size = op.Exp(real)
    return op.complex(op.Mul(size, op.Cos(imaginary)), op.Mul(size, op.Sin(imaginary)))


def log(op, z):
    real, imaginary = op.parts(z, whole=True)
    squares = op.Add(op.Mul(real, real), op.Mul(imaginary, imaginary))
    return op.complex(op.Mul(op.Log(squares), 0.5), angle(op, z))


def sqrt(op, z):
    """Compute the root in the right half-plane; its imaginary part has the sign of that of z."""
    real, imaginary = op.parts(z, whole=True)
    size = op.Sqrt(op.Add(op.Mul(real, real), op.Mul(imaginary, imaginary)))
    large = op.Sqrt(op.Mul(op.Add(size, op.Abs(real)), 0.5))
    side = op.Abs(imaginary)
    small = op.Div(side, op.Where(op.Equal(large, 0), 1, op.Mul(large, 2)))
    left = op.Less(real, 0)
    y, x = op.Where(left, large, small), op.Where(left, small, large)
    return op.complex(x, op.Mul(y, _sign(op, below_zero(op, imaginary), y)))


def _sign(op, minus, like):
    """Return -1 or 1 as a factor: between 0 and -0, onnxruntime's Where always takes 0."""
    return op.Where(minus, op.constant(-1, like.dtype), 1)


def _waves(op, z):
    """Return sine and cosine of the real part, and hyperbolic ones of the imaginary part."""
    real, imaginary = op.parts(z, whole=True)
    up, down = op.Exp(imaginary), op.Exp(op.Neg(imaginary))
    return op.Sin(real), op.Cos(real), *(op.Mul(f(up, down), 0.5) for f in (op.Sub, op.Add))


def sin(op, z):
    s, c, sh, ch = _waves(op, z)
    return op.complex(op.Mul(s, ch), op.Mul(c, sh))


def cos(op, z):
    s, c, sh, ch = _waves(op, z)
    return op.complex(op.Mul(c, ch), op.Neg(op.Mul(s, sh)))


def tan(op, z):
    real, imaginary = op.parts(z, whole=True)
    s, c, sh, ch = _waves(op, op.complex(op.Mul(real, 2), op.Clip(op.Mul(imaginary, 2), -80, 80)))
    size = op.Add(c, ch)
    return op.complex(op.Div(s, size), op.Div(sh, size))


def _turned_by_i(op, z, back=False):
    real, imaginary = op.parts(z, whole=True)
    return op.complex(*((imaginary, op.Neg(real)) if back else (op.Neg(imaginary), real)))


def _about_i(function):
    """Make a hyperbolic function from a circular one, as sinh(z) = -i sin(iz)."""
    return lambda op, z: _turned_by_i(op, function(op, _turned_by_i(op, z)), back=True)


def cosh(op, z):
    return cos(op, _turned_by_i(op, z))


def _more(op, z, number):
    """Add to the real part alone: the sign of an imaginary 0 tells the side of a branch cut."""
    real, imaginary = op.parts(z, whole=True)
    return op.complex(op.Add(real, number), imaginary)


def asinh(op, z):
    """Compute log(z + sqrt(z * z + 1)) in the right half-plane, where no digits cancel."""
    real = op.parts(z)[0]
    side = _sign(op, op.Less(real, 0), real)

    def sided(x):
        return op.complex(*(op.Mul(part, side) for part in op.parts(x, whole=True)))

    x = sided(z)
    return sided(log(op, op.Add(x, sqrt(op, _more(op, op.Mul(x, x), 1)))))


def atanh(op, z):
    return op.Mul(op.Sub(log(op, _more(op, z, 1)), log(op, _more(op, op.Neg(z), 1))), 0.5)


def acos(op, z):
    return op.Sub(math.pi / 2, asin(op, z))


def acosh(op, z):
    roots = op.Mul(sqrt(op, _more(op, z, 1)), sqrt(op, _more(op, z, -1)))
    return log(op, op.Add(z, roots))


asin, atan, sinh, tanh = _about_i(asinh), _about_i(atanh), _about_i(sin), _about_i(tan)


def sigmoid(op, z):
    return op.Reciprocal(op.Add(exp(op, op.Neg(z)), 1))


def _sinc(op, z):
    return op.Where(op.Equal(z, 0), 1, op.Div(sin(op, z), op.Where(op.Equal(z, 0), 1, z)))


FUNCTIONS = {
    "exp": exp, "log": log, "sqrt": sqrt, "sin": sin, "cos": cos, "tan": tan, "sinh": sinh,
    "cosh": cosh, "tanh": tanh, "asin arcsin": asin, "acos arccos": acos, "atan arctan": atan,
    "asinh arcsinh": asinh, "acosh arccosh": acosh, "atanh arctanh": atanh,
    "sigmoid special.expit": sigmoid,
    "exp2 special.exp2": lambda op, z: exp(op, op.Mul(z, math.log(2))),
    "expm1 special.expm1": lambda op, z: op.Sub(exp(op, z), 1),
    "log2": lambda op, z: op.Div(log(op, z), math.log(2)),
    "log10": lambda op, z: op.Div(log(op, z), math.log(10)),
    "log1p special.log1p": lambda op, z: log(op, op.Add(z, 1)),
    "rsqrt": lambda op, z: op.Reciprocal(sqrt(op, z)),
    "sinc special.sinc": lambda op, z: _sinc(op, op.Mul(z, math.pi)),
    "ops.aten.silu": lambda op, z: op.Mul(z, sigmoid(op, z)),
}  # fmt: skip


def _function(names, formula):
    def convert(op, input):
        return op.cast(formula(op, op.cast(input, torch.complex128)), op.result.dtype)

    return converter(*(f"torch.{n}" for n in names.split()), complex=True, cases=ONE)(convert)


CONVERTERS += [_function(names, formula) for names, formula in FUNCTIONS.items()]


@converter("torch.pow", "torch.float_power", complex=True,
           cases=[case(Z, 2), case(Z, 0.5), case(Z, -1), *TWO])  # fmt: skip
def pow(op, input, exponent):
    """Compute small integer powers by multiplication, others by the logarithm."""
    x = op.cast(input, torch.complex128)
    if isinstance(exponent, (int, float)) and exponent == 0.5:
        y = sqrt(op, x)
    elif isinstance(exponent, (int, float)) and exponent in range(-8, 9) and exponent:
        y = functools.reduce(op.Mul, [x] * int(math.fabs(exponent)))
        y = op.Reciprocal(y) if exponent < 0 else y
    else:
        power = op.cast(exponent, torch.complex128)
        nothing, one = op.Equal(x, 0), op.Equal(power, 0)
        y = exp(op, op.Mul(power, log(op, op.Where(nothing, 1, x))))
        y = op.Where(one, 1, op.Where(nothing, 0, y))
    return op.cast(y, op.result.dtype)


@converter("torch.ldexp", complex=True, cases=[case(Z, "int64[n,3]<5")])
def ldexp(op, input, other):
    return op.Mul(input, pow(op, op.constant(2, torch.complex64), other))


# Sums and lengths.


def _shifted(op, z, axes):
    """Return z minus its largest real part, so that exp cannot overflow, and that real part."""
    most = op.ReduceMax(op.parts(z)[0], axes)
    most = op.Where(op.Or(op.IsInf(most), op.IsNaN(most)), 0, most)
    return op.Sub(z, most), most


@converter("torch.logsumexp", "torch.special.logsumexp", complex=True, cases=[case(Z, 1)])
def logsumexp(op, input, dim, keepdim=False):
    axes = axes_of(dim, input.rank) if input.rank else []
    z, most = _shifted(op, op.cast(input, torch.complex128), axes)
    total = exp(op, z)
    y = op.Add(log(op, op.ReduceSum(total, axes) if axes else total), most)
    y = op.cast(y, op.result.dtype)
    return y if keepdim or not axes else op.Squeeze(y, axes)


@converter("torch.logaddexp", complex=True, cases=TWO)
def logaddexp(op, input, other):
    x, y = (op.cast(v, torch.complex128) for v in (input, other))
    # The imaginary part goes on from that of the larger one, and so past half a turn.
    first = op.GreaterOrEqual(op.parts(x)[0], op.parts(y)[0])
    most = op.Where(first, x, y)
    most = op.Where(op.Or(op.IsInf(most), op.IsNaN(most)), 0, most)
    total = op.Add(*(exp(op, op.Sub(v, most)) for v in (x, y)))
    return op.cast(op.Add(log(op, total), most), op.result.dtype)


@converter("torch.renorm", complex=True, cases=[case(Z, 2, 0, 1.0)])
def renorm(op, input, p, dim, maxnorm):
    size = op.Abs(input)
    near = reduction.renorm(op, size, p, dim, maxnorm)
    return op.Mul(input, op.Div(near, op.Where(op.Equal(size, 0), 1, size)))


@converter("torch.logdet", complex=True, cases=[case("complex64[n,3,3]")])
def logdet(op, input):
    sign, size = linalg_solving.slogdet(op, input)
    return op.Add(op.cast(log(op, op.cast(sign, torch.complex128)), input.dtype), size)


@converter("torch.vdot", complex=True, cases=[case("complex64[n]", "complex64[n]")])
def vdot(op, input, other):
    return op.MatMul(conj(op, input), other)


@converter("torch.linalg.vector_norm", complex=True, cases=[case(Z, 2, 1), case(Z, 3)])
def norm(op, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    return vector_norm(op, op.Abs(x), ord, dim, keepdim)


@converter("torch.ops.aten.norm", complex=True, cases=[])
def old_norm(op, input, p=2, dim=None, keepdim=False, *, dtype=None):
    return reduction.norm(op, op.Abs(input), p, dim, keepdim)


@converter("torch.dist", complex=True, cases=TWO)
def dist(op, input, other, p=2):
    return vector_norm(op, op.Abs(op.Sub(input, other)), p)


@converter("torch.prod", complex=True, cases=[case(Z, 1)])
def prod(op, input, dim=None, keepdim=False, *, dtype=None):
    x = op.cast(input, op.result.dtype)
    axes = axes_of(dim, x.rank) if x.rank else []
    for axis in axes:
        size = x.shape[axis]
        if type(size) is not int or not 0 < size <= 64:
            return NotImplemented
        x = functools.reduce(op.Mul, [op.Slice(x, [i], [i + 1], [axis]) for i in range(size)])
    return x if keepdim or not axes else op.Squeeze(x, axes)


@converter("torch.cumprod", complex=True, cases=[case(Z, 0), case(Z, 1)])
@scalars_too
def cumprod(op, input, dim, *, dtype=None):
    """Compute running products by carrying both parts along the axis."""
    x, y = op.parts(cumulative.carried(op, input, op.result.dtype), whole=True)
    axis = one_axis(dim, input.rank)

    def step(total, now):
        (a, b), (c, d) = total, now
        new = op.Sub(op.Mul(a, c), op.Mul(b, d)), op.Add(op.Mul(a, d), op.Mul(b, c))
        return *new, *new

    start = [cumulative.initial(op, x, axis, number) for number in (1, 0)]
    product = op.complex(*cumulative.scanned(op, x, axis, start, step, y))
    return op.cast(product, op.result.dtype)

"""Sizes of what an ONNX node returns, as ints and Dims.

One rule per operator, or per family. A rule takes the node's inputs, attributes and number of
outputs, and returns one shape per output. An operator without a rule, and a rule that returns
None, leave the shape unknown: the engine then reads it from the real result, and where it may
vary, refers to the size of that very value.
"""

from __future__ import annotations

from builtins import len, max  # their own: `world` hooks those of the model
from collections.abc import Callable
from typing import Any

from . import dims
from .values import Constant, Value

Shape = tuple[int, ...]
Rule = Callable[[list, dict, int], "list[Shape | None] | None"]
RULES: dict[str, Rule] = {}


def rule(*ops: str):
    def register(function: Rule) -> Rule:
        for op in ops:
            RULES[op] = function
        return function

    return register


def infer(op: str, inputs: list[Value | None], attributes: dict, count: int) -> list[Shape | None]:
    """Shapes of the outputs; None for each that is not known."""
    found = RULES.get(op)
    if found is None:
        return [None] * count
    try:
        shapes = found(inputs, attributes, count)
    except (_Unknown, TypeError, IndexError, AttributeError):
        # A rule reads sizes without asking whether they are known: not known, then.
        shapes = None
    return shapes if shapes is not None else [None] * count


class _Unknown(Exception):
    pass


class _RunTime:
    """A size that only the run knows: how many elements a mask picks. Arithmetic leaves it so."""

    def _same(self, *other):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __neg__ = _same


RUN_TIME: Any = _RunTime()


# Operators that read sizes from what is in an input: which inputs those are.
_CONTENTS: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,), "Expand": (1,), "OneHot": (1,), "Pad": (1,), "Range": (0, 1, 2),
    "Reshape": (1,), "Resize": (2, 3), "Slice": (1, 2, 4), "Split": (1,), "Tile": (1,),
    "TopK": (1,), "CenterCropPad": (1,), "MaxUnpool": (2,), "Col2Im": (1,),
}  # fmt: skip


def by_contents(op: str, inputs: list[Value | None]) -> bool:
    """Whether sizes of the outputs depend on numbers that are only known at run time."""
    read = [inputs[i] for i in _CONTENTS.get(op, ()) if i < len(inputs)]
    return any(v is not None and v.elements is None and not v.is_constant for v in read)


def _shape(value: Value | None) -> Shape:
    if value is None or value.shape is None:
        raise _Unknown
    return value.shape


def elements(value: Value | None) -> tuple:
    """The sizes inside an int64 vector, when they are known."""
    if value is None:
        raise _Unknown
    if value.elements is not None:
        return value.elements
    if isinstance(value, Constant) and value.rank <= 1 and value.tensor.numel() < 64:
        listed = value.tolist()
        return tuple(listed) if isinstance(listed, list) else (listed,)
    raise _Unknown


def _numbers(value: Value | None) -> tuple:
    """The sizes inside an int64 vector; where only their count is known, as many of the run."""
    try:
        return elements(value)
    except _Unknown:
        count = value.shape[0] if value is not None and value.shape and value.rank == 1 else None
        if type(count) is not int:
            raise
        return (RUN_TIME,) * count


def same(a: int, b: int) -> bool:
    """Whether two sizes are equal at every run, as far as one can know."""
    if type(a) is dims.Dim or type(b) is dims.Dim:
        return dims.Poly.of(a) == dims.Poly.of(b)
    return a == b


def broadcast(*shapes: Shape) -> Shape:
    """The common shape. Where two sizes that may vary meet, an axis of 1 gives way."""
    rank = max(map(len, shapes), default=0)
    out: list[int] = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            m = out[i]
            if same(m, n) or (type(n) is int and n == 1):
                continue
            if type(m) is int and m == 1:
                out[i] = n
            elif type(m) is dims.Dim and type(n) is dims.Dim:
                # Either may turn out to be 1 at run time: nobody can say which one it is.
                out[i] = RUN_TIME
            elif m is RUN_TIME or n is RUN_TIME:
                out[i] = n if type(n) is int else m if type(m) is int else RUN_TIME
            elif type(m) is dims.Dim:
                out[i] = n
    return tuple(out)


def _axis(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def _product(sizes) -> int:
    total = 1
    for n in sizes:
        total = total * n
    return total


# Elementwise.

_UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh CumSum Elu
Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity IsInf IsNaN LeakyRelu Log LogSoftmax
Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt
Swish Tan Tanh ThresholdedRelu Trilu LpNormalization MeanVarianceNormalization LRN Bernoulli
RandomNormalLike RandomUniformLike InstanceNormalization GroupNormalization BatchNormalization
ScatterElements ScatterND QuantizeLinear DequantizeLinear ReverseSequence RotaryEmbedding
RMSNormalization CumProd EyeLike""".split()


@rule(*_UNARY)
def _like_first(inputs, attributes, count):
    return [_shape(inputs[0])] + [None] * (count - 1)


@rule("LayerNormalization")
def _layer_norm(inputs, attributes, count):
    x = _shape(inputs[0])
    axis = _axis(attributes.get("axis", -1), len(x))
    reduced = x[:axis] + (1,) * (len(x) - axis)
    return [x, reduced, reduced][:count]


@rule(
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Mean", "Sum", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "BitShift", "BitwiseAnd",
    "BitwiseOr", "BitwiseXor", "Where", "PRelu",
)  # fmt: skip
def _broadcast(inputs, attributes, count):
    return [broadcast(*map(_shape, inputs))]


# Linear algebra.


@rule("MatMul", "MatMulInteger")
def _matmul(inputs, attributes, count):
    a, b = _shape(inputs[0]), _shape(inputs[1])
    if len(a) == 1 and len(b) == 1:
        return [()]
    if len(a) == 1:
        return [b[:-2] + b[-1:]]
    if len(b) == 1:
        return [a[:-1]]
    return [(*broadcast(a[:-2], b[:-2]), a[-2], b[-1])]


@rule("Gemm")
def _gemm(inputs, attributes, count):
    a, b = _shape(inputs[0]), _shape(inputs[1])
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
        for letter, n in zip(term, _shape(value)):
            if letter not in sizes or (type(sizes[letter]) is int and sizes[letter] == 1):
                sizes[letter] = n
    return [tuple(sizes[letter] for letter in right)]


@rule("Det")
def _det(inputs, attributes, count):
    return [_shape(inputs[0])[:-2]]


# Windows.


def _window(n: int, kernel: int, stride: int, dilation: int, pad: int, ceil: bool) -> int:
    free = n + pad - (dilation * (kernel - 1) + 1)
    if ceil:
        steps = dims.ceil_div(free, stride) + 1
        # A last window that would start in the right padding does not count.
        if type(steps) is int and (steps - 1) * stride >= n + pad // 2:
            steps -= 1
        return steps
    return free // stride + 1


def _spatial(inputs, attributes, kernel, x):
    k = len(kernel)
    strides = attributes.get("strides") or [1] * k
    dilations = attributes.get("dilations") or [1] * k
    pads = attributes.get("pads") or [0] * (2 * k)
    auto = attributes.get("auto_pad", "NOTSET")
    ceil = bool(attributes.get("ceil_mode"))
    out = []
    for i in range(k):
        n = x[2 + i]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            out.append(dims.ceil_div(n, strides[i]))
        else:
            pad = 0 if auto == "VALID" else pads[i] + pads[k + i]
            if ceil and type(n) is dims.Dim:
                out.append(RUN_TIME)
                continue
            if ceil and pads[i] != pads[k + i]:
                raise _Unknown
            out.append(_window(n, kernel[i], strides[i], dilations[i], pad, ceil))
    return tuple(out)


@rule("Conv", "ConvInteger")
def _conv(inputs, attributes, count):
    x, w = _shape(inputs[0]), _shape(inputs[1])
    return [(x[0], w[0], *_spatial(inputs, attributes, w[2:], x))]


@rule("ConvTranspose")
def _conv_transpose(inputs, attributes, count):
    x, w = _shape(inputs[0]), _shape(inputs[1])
    k = len(x) - 2
    if attributes.get("output_shape") or attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    strides = attributes.get("strides") or [1] * k
    dilations = attributes.get("dilations") or [1] * k
    pads = attributes.get("pads") or [0] * (2 * k)
    extra = attributes.get("output_padding") or [0] * k
    spatial = [
        (x[2 + i] - 1) * strides[i] + extra[i] + (w[2 + i] - 1) * dilations[i] + 1
        - pads[i] - pads[k + i]
        for i in range(k)
    ]  # fmt: skip
    return [(x[0], w[1] * attributes.get("group", 1), *spatial)]


@rule("MaxPool", "AveragePool", "LpPool")
def _pool(inputs, attributes, count):
    x = _shape(inputs[0])
    return [(x[0], x[1], *_spatial(inputs, attributes, attributes["kernel_shape"], x))] * count


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(inputs, attributes, count):
    x = _shape(inputs[0])
    return [x[:2] + (1,) * (len(x) - 2)]


# Reductions.


@rule(*[f"Reduce{k}" for k in ("Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare").split()])
def _reduce(inputs, attributes, count):
    x = _shape(inputs[0])
    keep = attributes.get("keepdims", 1)
    if len(inputs) > 1 and inputs[1] is not None:
        axes = {_axis(a, len(x)) for a in elements(inputs[1])}
        if not axes and attributes.get("noop_with_empty_axes"):
            return [x]
    elif attributes.get("noop_with_empty_axes"):
        return [x]
    else:
        axes = {_axis(a, len(x)) for a in attributes.get("axes") or ()}  # before opset 18
    axes = axes or set(range(len(x)))
    if keep:
        return [tuple(1 if i in axes else n for i, n in enumerate(x))]
    return [tuple(n for i, n in enumerate(x) if i not in axes)]


@rule("ArgMax", "ArgMin")
def _arg(inputs, attributes, count):
    x = list(_shape(inputs[0]))
    axis = _axis(attributes.get("axis", 0), len(x))
    x[axis : axis + 1] = [1] if attributes.get("keepdims", 1) else []
    return [tuple(x)]


@rule("TopK")
def _topk(inputs, attributes, count):
    x = list(_shape(inputs[0]))
    (k,) = _numbers(inputs[1])
    x[_axis(attributes.get("axis", -1), len(x))] = k
    return [tuple(x)] * count


# Form.


@rule("NonZero")
def _non_zero(inputs, attributes, count):
    return [(inputs[0].rank, RUN_TIME)]


@rule("Compress")
def _compress(inputs, attributes, count):
    if "axis" not in attributes:
        return [(RUN_TIME,)]
    x = list(_shape(inputs[0]))
    x[_axis(attributes["axis"], len(x))] = RUN_TIME
    return [tuple(x)]


@rule("Unique")
def _unique(inputs, attributes, count):
    x = list(_shape(inputs[0]))
    if "axis" in attributes:
        x[_axis(attributes["axis"], len(x))] = RUN_TIME
        length = _shape(inputs[0])[attributes["axis"]]
    else:
        x, length = [RUN_TIME], _product(x)
    return [tuple(x), (RUN_TIME,), (length,), (RUN_TIME,)][:count]


@rule("NonMaxSuppression")
def _suppressed(inputs, attributes, count):
    return [(RUN_TIME, 3)]


@rule("Shape")
def _shape_of(inputs, attributes, count):
    rank = inputs[0].rank
    return [(len(range(rank)[attributes.get("start", 0) : attributes.get("end", rank)]),)]


@rule("Size")
def _size(inputs, attributes, count):
    return [()]


@rule("Reshape")
def _reshape(inputs, attributes, count):
    wanted = _numbers(inputs[1])
    x = _shape(inputs[0])
    out: list[int] = []
    for i, n in enumerate(wanted):
        zero = type(n) is int and n == 0 and not attributes.get("allowzero")
        out.append(x[i] if zero else n)
    unknown = [i for i, n in enumerate(out) if type(n) is int and n == -1]
    if unknown:
        rest = _product(n for i, n in enumerate(out) if i != unknown[0])
        if type(rest) is int and rest == 0:
            raise _Unknown
        out[unknown[0]] = _product(x) // rest
    return [tuple(out)]


@rule("Flatten")
def _flatten(inputs, attributes, count):
    x = _shape(inputs[0])
    axis = _axis(attributes.get("axis", 1), len(x))
    return [(_product(x[:axis]), _product(x[axis:]))]


@rule("Transpose")
def _transpose(inputs, attributes, count):
    x = _shape(inputs[0])
    perm = attributes.get("perm") or range(len(x) - 1, -1, -1)
    return [tuple(x[p] for p in perm)]


@rule("Squeeze")
def _squeeze(inputs, attributes, count):
    x = _shape(inputs[0])
    if len(inputs) < 2 or inputs[1] is None:
        if any(type(n) is dims.Dim for n in x):
            return None
        return [tuple(n for n in x if n != 1)]
    axes = {_axis(a, len(x)) for a in elements(inputs[1])}
    return [tuple(n for i, n in enumerate(x) if i not in axes)]


@rule("Unsqueeze")
def _unsqueeze(inputs, attributes, count):
    x = list(_shape(inputs[0]))
    axes = elements(inputs[1])
    rank = len(x) + len(axes)
    for a in sorted(_axis(a, rank) for a in axes):
        x.insert(a, 1)
    return [tuple(x)]


@rule("Expand")
def _expand(inputs, attributes, count):
    x, wanted = _shape(inputs[0]), _numbers(inputs[1])
    common = broadcast(x, wanted)
    lead = len(common) - len(wanted)
    # What is expanded to a size has that size, or else PyTorch would have refused it.
    return [
        tuple(wanted[i - lead] if n is RUN_TIME and i >= lead else n for i, n in enumerate(common))
    ]


@rule("ConstantOfShape", "RandomNormal", "RandomUniform")
def _of_shape(inputs, attributes, count):
    return [tuple(_numbers(inputs[0]) if inputs else attributes["shape"])]


@rule("Tile")
def _tile(inputs, attributes, count):
    return [tuple(n * r for n, r in zip(_shape(inputs[0]), _numbers(inputs[1])))]


@rule("Concat")
def _concat(inputs, attributes, count):
    shapes = [_shape(v) for v in inputs]
    axis = _axis(attributes["axis"], len(shapes[0]))
    out = list(shapes[0])
    for i in range(len(out)):
        # Axes that are joined are equal; one that is a plain number knows best.
        fixed = [s[i] for s in shapes if type(s[i]) is int]
        out[i] = fixed[0] if fixed else out[i]
    out[axis] = 0
    for s in shapes:
        out[axis] = out[axis] + s[axis]
    return [tuple(out)]


@rule("Split")
def _split(inputs, attributes, count):
    x = list(_shape(inputs[0]))
    axis = _axis(attributes.get("axis", 0), len(x))
    if len(inputs) > 1 and inputs[1] is not None:
        sizes = _numbers(inputs[1])
    else:
        chunk = dims.ceil_div(x[axis], count)
        sizes = (*[chunk] * (count - 1), x[axis] - chunk * (count - 1))
    return [(*x[:axis], n, *x[axis + 1 :]) for n in sizes]


def slice_size(n: int, start: int, end: int, step: int) -> int | None:
    """How many elements `start:end:step` takes of n; None when nobody can say."""
    far = 2**31
    if all(type(v) is int for v in (n, start, end, step)):
        return len(range(n)[slice(start, end if abs(end) < far or step > 0 else None, step)])
    if type(step) is not int or step < 1:
        return None
    if type(start) is int and type(end) is int:
        if start < 0 and end >= far:  # the last few, when there are as many
            return dims.ceil_div(dims.smaller(n, -start), step)
        first = start if start >= 0 else dims.larger(n + start, 0)
        last = n if end >= far else n + end if end < 0 else dims.smaller(end, n)
        return dims.ceil_div(dims.larger(last - first, 0) if first or end < 0 else last, step)
    # Sizes that the model computed itself: clamped as torch does, negative ones from the end.
    first = _from_end(start, n)
    end = _from_end(end, n)
    if type(end) is int and end >= far:
        last = n
    else:
        last = end if same(end, n) else dims.smaller(end, n)
    if type(first) is int and first == 0:
        return dims.ceil_div(last, step)
    first = dims.smaller(first, n) if not at_most(first, n) else first
    span = last - first
    return dims.ceil_div(span if type(span) is int and span >= 0 else dims.larger(span, 0), step)


def _from_end(place: int, n: int) -> int:
    """A bound of a slice, counted from the front."""
    if dims.plain(place) >= 0:
        return place
    moved = n + place
    return moved if type(moved) is dims.Dim and at_most(-place, n) else dims.larger(moved, 0)


def at_most(a: int, b: int) -> bool:
    """Whether a is never larger than b, as far as one can know."""
    gap = b - a
    if type(gap) is int:
        return gap >= 0
    if dims.never_negative(dims.Poly.of(gap)):
        return True
    smallest = dims.smallest_of(a)
    return any(at_most(dims.dim(n), b) for n in smallest)


@rule("Slice")
def _slice(inputs, attributes, count):
    x = list(_shape(inputs[0]))
    starts, ends = _numbers(inputs[1]), _numbers(inputs[2])
    axes = elements(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else range(len(starts))
    steps = _numbers(inputs[4]) if len(inputs) > 4 else [1] * len(starts)
    for start, end, a, step in zip(starts, ends, axes, steps):
        run_time = any(n is RUN_TIME for n in (start, end, step))
        size = None if run_time else slice_size(x[a], start, end, step)
        x[a] = RUN_TIME if size is None else size
    return [tuple(x)]


@rule("Pad")
def _pad(inputs, attributes, count):
    x = list(_shape(inputs[0]))
    pads = _numbers(inputs[1])
    axes = elements(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else range(len(x))
    for i, a in enumerate(axes):
        x[a] = x[a] + pads[i] + pads[len(pads) // 2 + i]
    return [tuple(x)]


@rule("Gather")
def _gather(inputs, attributes, count):
    x, index = _shape(inputs[0]), _shape(inputs[1])
    axis = _axis(attributes.get("axis", 0), len(x))
    return [x[:axis] + index + x[axis + 1 :]]


@rule("GatherElements")
def _gather_elements(inputs, attributes, count):
    return [_shape(inputs[1])]


@rule("GatherND")
def _gather_nd(inputs, attributes, count):
    x, index = _shape(inputs[0]), _shape(inputs[1])
    batch = attributes.get("batch_dims", 0)
    return [index[:-1] + x[batch + index[-1] :]]


@rule("Range")
def _range(inputs, attributes, count):
    try:
        (start,), (limit,), (delta,) = map(elements, inputs)
    except _Unknown:
        return [(RUN_TIME,)] if by_contents("Range", inputs) else None
    if type(delta) is int and delta > 0:
        return [(dims.larger(dims.ceil_div(limit - start, delta), 0)
                 if not (type(start) is int and start == 0)
                 else dims.ceil_div(limit, delta),)]  # fmt: skip
    if type(delta) is int and delta < 0:
        return [(dims.larger(dims.ceil_div(start - limit, -delta), 0),)]
    return [(RUN_TIME,)]


@rule("OneHot")
def _one_hot(inputs, attributes, count):
    x = list(_shape(inputs[0]))
    (depth,) = _numbers(inputs[1])
    x.insert(_axis(attributes.get("axis", -1), len(x) + 1), depth)
    return [tuple(x)]


@rule("Resize")
def _resize(inputs, attributes, count):
    x = list(_shape(inputs[0]))
    if len(inputs) > 3 and inputs[3] is not None:
        sizes = _numbers(inputs[3])
        for a, n in zip(attributes.get("axes") or range(len(x)), sizes):
            x[a] = n
        return [tuple(x)]
    return None


@rule("GridSample")
def _grid_sample(inputs, attributes, count):
    x, grid = _shape(inputs[0]), _shape(inputs[1])
    return [(*x[:2], *grid[1:-1])]


@rule("DepthToSpace")
def _depth_to_space(inputs, attributes, count):
    n, c, h, w = _shape(inputs[0])
    b = attributes["blocksize"]
    return [(n, c // (b * b), h * b, w * b)]


@rule("SpaceToDepth")
def _space_to_depth(inputs, attributes, count):
    n, c, h, w = _shape(inputs[0])
    b = attributes["blocksize"]
    return [(n, c * b * b, h // b, w // b)]


# Recurrent.


@rule("LSTM", "GRU", "RNN")
def _recurrent(inputs, attributes, count):
    steps, batch, _ = _shape(inputs[0])
    directions, hidden = _shape(inputs[1])[0], attributes["hidden_size"]
    state = (directions, batch, hidden)
    return [(steps, directions, batch, hidden), state, state][:count]


@rule("Attention")
def _attention(inputs, attributes, count):
    q, v = _shape(inputs[0]), _shape(inputs[2])
    if len(q) != 4:
        return None
    return [(*q[:-1], v[-1])] + [None] * (count - 1)

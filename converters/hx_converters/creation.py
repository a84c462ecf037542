"""New tensors from sizes and numbers."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted


def _filled(op, size, number):
    return op.Expand(op.constant(number, op.result.dtype), op.sizes(size))


# Functions of sizes alone have no case: a case gives tensors and numbers, but no traced size.


@converter("torch.zeros", "torch.empty", cases=[])
def zeros(op, size, *, dtype=None):
    return _filled(op, size, 0)


@converter("torch.ones", cases=[])
def ones(op, size, *, dtype=None):
    return _filled(op, size, 1)


@converter("torch.full", cases=[case([2, 3], "float32[]")])
def full(op, size, fill_value, *, dtype=None):
    if hasattr(fill_value, "rank"):
        return op.Expand(op.cast(fill_value, op.result.dtype), op.sizes(size))
    return _filled(op, size, fill_value)


@converter("torch.empty_like", cases=[])  # whatever is in it is right
@converter("torch.zeros_like", cases=[case("float32[n,3]")])
def zeros_like(op, input, *, dtype=None):
    return _filled(op, input.shape, 0)


@converter("torch.ones_like", cases=[case("float32[n,3]")])
def ones_like(op, input, *, dtype=None):
    return _filled(op, input.shape, 1)


@converter("torch.full_like", cases=[case("float32[n,3]", 2.5)])
def full_like(op, input, fill_value, *, dtype=None):
    return full(op, input.shape, fill_value)


@converter("torch.Tensor.new_empty", cases=[])  # whatever is in it is right
@converter("torch.Tensor.new_zeros", cases=[case("float32[n,3]", [2, 3])])
def new_zeros(op, self, size, *, dtype=None):
    return _filled(op, size, 0)


@converter("torch.Tensor.new", cases=[])  # of sizes: tests/recording/test_dims.py
def new(op, self, *given):
    """Make a tensor: x.new(2, n) and x.new(x.shape) from sizes, x.new([2, n]) from numbers."""
    one = len(given) == 1 and isinstance(given[0], (list, tuple))
    sizes = given[0] if one else given
    if not sizes or not all(isinstance(n, (int, float)) for n in sizes):
        return NotImplemented  # another tensor
    numbers = one and (isinstance(sizes, list) or list(op.result.shape) == [1])
    if numbers or op.result.rank != len(sizes):
        return tensor(op, sizes)
    return _filled(op, sizes, 0)


@converter("torch.Tensor.new_ones", cases=[case("float32[n,3]", [2, 3])])
def new_ones(op, self, size, *, dtype=None):
    return _filled(op, size, 1)


@converter("torch.Tensor.new_full", cases=[case("float32[n,3]", [2, 3], 1.5)])
def new_full(op, self, size, fill_value, *, dtype=None):
    return full(op, size, fill_value)


@converter("torch._dim_arange", cases=[case("float32[n,3]", 0)])
def dim_arange(op, like, dim):
    return counted(op, like.shape[dim])


@converter("torch.arange", cases=[])
def arange(op, start=0, end=None, step=1, *, dtype=None):
    if end is None:
        start, end = 0, start
    kind = op.result.dtype
    if kind.is_floating_point:
        in_steps = any(type(n) is not int for n in (start, end, step))
    else:  # of int64, PyTorch takes whole numbers from the start
        in_steps = kind != torch.int64 and any(map(_is_float, (start, end, step)))
    if in_steps:
        return op.cast(_steps(op, start, end, step, whole=not kind.is_floating_point), kind)
    wide = kind
    if kind.itemsize < 4:  # of uint8, PyTorch counts on from 0 behind 255
        wide = torch.float32 if kind.is_floating_point else torch.int64
    y = op.Range(*[op.cast(n, wide) for n in (start, end, step)])
    return op.cast(y, kind)


def _is_float(n):
    return n.dtype.is_floating_point if hasattr(n, "dtype") else not isinstance(n, int)


def _steps(op, start, end, step, whole=False):
    """Count steps as PyTorch does, in float64: ONNX's Range rounds and may give one more or less.

    If `whole`, the first step and the distance become integers; the number of steps does not.
    """
    if any(hasattr(n, "rank") for n in (start, end, step)):
        first, last, by = (op.cast(n, torch.float64) for n in (start, end, step))
        count = op.cast(op.Ceil(op.Div(op.Sub(last, first), by)), torch.int64)
        places = op.cast(op.Range(0, count, 1), torch.float64)
    else:
        # A size times 1.0 is a float that stays dynamic; a float on the left would fix it.
        places = counted(op, ((end - start * 1.0) / (step * 1.0)).__ceil__(), torch.float64)
        first, by = op.constant(start, torch.float64), op.constant(step, torch.float64)
    if whole:
        first, by = (op.cast(op.cast(n, torch.int64), torch.float64) for n in (first, by))
    return op.Add(first, op.Mul(places, by))


def _evenly(op, start, end, steps):
    """Count from start to end as PyTorch does: each half from its own end."""
    kind = op.result.dtype
    halves = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
    wide = halves.get(kind, kind) if kind.is_floating_point else torch.float64
    if type(steps) is int and steps == 1:  # then nothing is rounded on the way
        return op.Reshape(op.cast(start, torch.float64), [1])
    whole = [start, end] if kind.is_floating_point else [op.cast(v, kind) for v in (start, end)]
    first, last = (op.cast(v, wide) for v in whole)
    step = op.Div(op.Sub(last, first), op.constant(max(steps - 1, 1), wide))
    places = op.Range(0, op.constant(steps), 1)
    forth, back = op.cast(places, wide), op.cast(op.Sub(op.constant(steps - 1), places), wide)
    first_half = op.Less(places, op.constant(max(steps // 2, 1)))
    return op.Where(
        first_half, op.Add(first, op.Mul(step, forth)), op.Sub(last, op.Mul(step, back))
    )


@converter("torch.linspace", cases=[case(lambda: torch.tensor(1.5), lambda: torch.tensor(4.0), 6)])
def linspace(op, start, end, steps, *, dtype=None):
    return op.cast(_evenly(op, start, end, steps), op.result.dtype)


@converter("torch.logspace", cases=[case(lambda: torch.tensor(-1.0), lambda: torch.tensor(2.0), 5)])
def logspace(op, start, end, steps, base=10.0, *, dtype=None):
    powers = _evenly(op, start, end, steps)
    return op.cast(op.Pow(op.constant(float(base), powers.dtype), powers), op.result.dtype)


@converter("torch.functional.meshgrid", "torch.meshgrid", cases=[
    case("float32[n]", "float32[m]", indexing="ij"), case("float32[n]", "float32[m]", indexing="xy"),
])  # fmt: skip
@converter("torch.ops.aten.meshgrid", cases=[case(["float32[n]", "float32[m]"], indexing="xy")])
def meshgrid(op, *tensors, indexing="ij"):
    """Lay each tensor along its own axis, repeated over the others; "xy" swaps the first two."""
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    sizes = [t.shape[0] if t.rank else 1 for t in tensors]
    axes = list(range(len(tensors)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = 1, 0
        sizes[:2] = sizes[1], sizes[0]
    grids = []
    for axis, t in zip(axes, tensors):
        along = op.Reshape(t, [-1 if a == axis else 1 for a in range(len(axes))])
        grids.append(op.Expand(along, op.sizes(sizes)))
    return tuple(grids)


@converter("torch.functional.cartesian_prod", cases=[case("float32[n]", "float32[3]")])
def cartesian_prod(op, *tensors):
    if len(tensors) == 1:
        return tensors[0]
    columns = [op.Reshape(grid, [-1, 1]) for grid in meshgrid(op, *tensors)]
    return op.Concat(*columns, axis=1)


@converter("torch.eye", cases=[])
def eye(op, n, m=None, *, dtype=None):
    ones = op.EyeLike(op.Expand(op.constant(0.0), op.sizes([n, n if m is None else m])))
    return op.cast(ones, op.result.dtype)


@converter("torch.tensor", "torch.scalar_tensor", cases=[])  # of sizes and numbers
@converter(
    "torch.as_tensor", "torch.asarray", cases=[case("float32[n,3]", dtype=lambda: torch.int64)]
)
def tensor(op, data, *, dtype=None):
    return op.cast(_stacked(op, data, op.result.dtype), op.result.dtype)


@converter("torch.Tensor.new_tensor", cases=[case("float32[n,3]", "int64[2]")])
def new_tensor(op, self, data, *, dtype=None):
    return tensor(op, data)


def _stacked(op, data, dtype):
    if _all_numbers(data):
        return op.constant(torch.tensor(data, dtype=dtype))
    if isinstance(data, (list, tuple)):
        if (vector := op.listed(data)) is not None:
            return op.cast(vector, dtype)
        parts = [op.Unsqueeze(_stacked(op, part, dtype), [0]) for part in data]
        return op.Concat(*parts, axis=0)
    return op.cast(data, dtype)


def _all_numbers(data):
    """Return whether nested data hold Python numbers only, no tensor and no size."""
    if isinstance(data, (list, tuple)):
        return all(map(_all_numbers, data))
    return type(data) in (int, float, bool, complex)

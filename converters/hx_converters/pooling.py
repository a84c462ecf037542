"""Pooling."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import counted, fixed_pads, lowest, pair, reshaped
from ._sums import reduction


def _batched(op, x, spatial, pool):
    """Pool with a batch axis in front, which PyTorch makes optional."""
    x = _apart(op, x)
    if x.rank == spatial + 2:
        return pool(x)
    y = pool(op.Unsqueeze(x, [0]))
    return tuple(op.Squeeze(v, [0]) for v in y) if isinstance(y, tuple) else op.Squeeze(y, [0])


def _apart(op, x):
    """Keep onnxruntime from fusing a pool with a padding of zeros before it.

    A fused pool does not pad with zeros: a maximum of negative numbers comes out wrong, and a
    window of 1 is refused. onnxruntime does not fuse a padding of negative zeros.
    """
    node = x.node
    if node is None or node.op != "Pad" or node.attributes.get("mode", "constant") != "constant":
        return x
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if len(node.inputs) > 3 or (
        value is not None and not (value.is_constant and value.item() == 0)
    ):
        return x
    return op.Pad(node.inputs[0], node.inputs[1], op.constant(-0.0, x.dtype))


def _windows(spatial, kernel_size, stride, padding):
    kernel = pair(kernel_size, spatial)
    strides = pair(stride, spatial) if stride not in (None, []) and stride != () else kernel
    pads = pair(padding, spatial)
    return {"kernel_shape": kernel, "strides": strides, "pads": [*pads, *pads]}


def _whole_axes(op, x, spatial, windows, reduce):
    """Reduce x along the axes that a window always covers from end to end.

    There, windows of one element remain.
    """
    kernel, pads = windows["kernel_shape"], windows["pads"]
    first = x.rank - spatial
    whole = [
        i for i, k in enumerate(kernel)
        if type(k) is not int and type(pads[i]) is int and pads[i] == 0 and op.same(k, x.shape[first + i])
    ]  # fmt: skip
    if not whole:
        return x, windows

    def ones(sizes):
        return [1 if i in whole else n for i, n in enumerate(sizes)]

    changed = {"kernel_shape": ones(kernel), "strides": ones(windows["strides"])}
    return reduction(op, reduce, x, [first + i for i in whole]), {**windows, **changed}


def _of_sizes(op, x, spatial, windows, dilations, value, reduce):
    """Reduce x along the axes whose windows, or the steps between them, follow from a size.

    ONNX takes fixed numbers alone. So each window is gathered along an axis of its own; where these
    axes were, windows of one element remain.
    """
    kernel, strides, pads = (windows[k] for k in ("kernel_shape", "strides", "pads"))
    first, given = x.rank - spatial, [*zip(kernel, strides)]
    sized = [i for i, of in enumerate(given) if any(type(n) is not int for n in of)]
    if not sized:
        return x, windows

    def instead(numbers, one):
        return [one if i % spatial in sized else n for i, n in enumerate(numbers)]

    apart = [n if i % spatial in sized else 0 for i, n in enumerate(pads)]
    if any(type(n) is not int or n != 0 for n in apart):
        front = [0] * first
        amounts = op.sizes([*front, *apart[:spatial], *front, *apart[spatial:]])
        x = op.Pad(x, amounts, op.constant(value, x.dtype))
    for i in sized:
        (k, s), d, axis = given[i], dilations[i], first + i
        count = _steps(op, x.shape[axis], k, s, 0, d, False) + 1
        starts = op.Unsqueeze(op.Mul(counted(op, count), op.constant(s)), [1])
        places = op.Add(starts, op.Mul(counted(op, k), op.constant(d)))
        x = reduction(op, reduce, op.Gather(x, places, axis=axis), [axis + 1], keepdims=0)
    changed = {"kernel_shape": instead(kernel, 1), "strides": instead(strides, 1)}
    return x, {**windows, **changed, "pads": instead(pads, 0)}


def _nothing_left(windows):
    return all(n == 1 for n in (*windows["kernel_shape"], *windows["strides"]))


def _steps(op, size, kernel, stride, pad, dilation, up):
    """Count the moves of a window along an axis.

    Rounding up lets the last window stand partly outside, but not start in the padding.
    """
    free = size + 2 * pad - dilation * (kernel - 1) - 1
    if not up:
        return free // stride
    most, starts = (free + (stride - 1)) // stride, (size + (pad - 1)) // stride
    return most if op.at_most(most, starts) else most - op.larger(most - starts, 0)


def _rounded_up(op, x, windows, dilations):
    """Return x and windows that ONNX rounds up as PyTorch does, and whether it has to round up.

    ONNX has one ceil_mode for all axes, and counts windows that start in the padding. So an axis
    of fixed size is made to end with its last window.
    """
    kernel, strides, pads = (windows[k] for k in ("kernel_shape", "strides", "pads"))
    up, cut, ends = False, {}, list(pads[len(kernel) :])
    for i, (n, k, s, p, d) in enumerate(zip(x.shape[2:], kernel, strides, pads, dilations)):
        if any(type(given) is not int for given in (n, k, s, p)):
            up = True
            continue
        beyond = n + 2 * p - d * (k - 1) - 1 - _steps(op, n, k, s, p, d, True) * s
        up = up or beyond < 0
        ends[i] -= max(beyond, 0)
        if ends[i] < 0:  # part of the axis itself lies in no window
            cut[2 + i], ends[i] = n + ends[i], 0
    if not up:
        return x, windows, 0
    if cut:
        x = op.Slice(x, [0] * len(cut), list(cut.values()), list(cut))
    return x, {**windows, "pads": [*pads[: len(kernel)], *ends]}, 1


def _plane(x, spatial):
    """Count the elements of one channel."""
    total = 1
    for n in x.shape[-spatial:]:
        total = n * total
    return total


def _in_plane(op, places, part, whole):
    """Convert indices into the front part of a plane to indices into the whole plane."""
    if op.same(list(part[1:]), list(whole[1:])):
        return places
    found, step = None, 1
    for size, full in zip(part[::-1], whole[::-1]):
        here = op.Mul(op.Mod(places, op.constant(size)), op.constant(step))
        found = here if found is None else op.Add(found, here)
        places, step = op.Div(places, op.constant(size)), full * step
    return found


def _max_pool(spatial, indices=False):
    def convert(op, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                return_indices=False):  # fmt: skip
        windows = _windows(spatial, kernel_size, stride, padding)
        if not (return_indices or indices) and all(n == 1 for n in pair(dilation, spatial)):
            input, windows = _whole_axes(op, input, spatial, windows, "ReduceMax")
        if not (return_indices or indices or ceil_mode):
            low = lowest(input.dtype)
            input, windows = _of_sizes(
                op, input, spatial, windows, pair(dilation, spatial), low, "ReduceMax"
            )
        if not (return_indices or indices) and _nothing_left(windows):
            return input

        def pool(x):
            dilations, around, where, up = pair(dilation, spatial), x, windows, 0
            if ceil_mode:
                around, where, up = _rounded_up(op, x, windows, dilations)
            elif not (return_indices or indices):
                around = _fixed(op, x, windows, lowest(x.dtype))
            y = op.MaxPool(around, **where, dilations=dilations, ceil_mode=up,
                           outputs=1 + (return_indices or indices))  # fmt: skip
            if len(y) == 1:
                return y[0]
            # ONNX counts through the whole tensor, PyTorch through each channel.
            places = op.Mod(y[1], op.constant(_plane(around, spatial)))
            return y[0], _in_plane(op, places, around.shape[2:], x.shape[2:])

        return _batched(op, input, spatial, pool)

    return convert


def avg_pool(spatial):
    def convert(op, input, kernel_size, stride=None, padding=0, ceil_mode=False,
                count_include_pad=True, divisor_override=None):  # fmt: skip
        windows = _windows(spatial, kernel_size, stride, padding)
        if divisor_override is not None:
            return _batched(op, input, spatial,
                            lambda x: _summed(op, x, windows, ceil_mode, divisor_override))  # fmt: skip
        input, windows = _whole_axes(op, input, spatial, windows, "ReduceMean")
        unpadded = all(type(n) is int and n == 0 for n in windows["pads"])
        if not ceil_mode and (count_include_pad or unpadded):
            input, windows = _of_sizes(op, input, spatial, windows, [1] * spatial, 0, "ReduceMean")
        if _nothing_left(windows):
            return input

        def pool(x):
            how = {"count_include_pad": int(count_include_pad)}
            if ceil_mode:
                around, where, how["ceil_mode"] = _rounded_up(op, x, windows, [1] * spatial)
                return op.AveragePool(around, **where, **how)
            around = _fixed(op, x, windows, 0)
            y = op.AveragePool(around, **windows, **how)
            if around is x or count_include_pad:
                return y
            ones = op.Pad(op.Expand(op.constant(1, x.dtype), op.sizes([1, 1, *x.shape[2:]])),
                          around.node.inputs[1])  # fmt: skip
            return op.Div(y, op.AveragePool(ones, **windows, **how))

        return _batched(op, input, spatial, pool)

    return convert


def _fixed(op, x, windows, value):
    """Move pads that depend on a size from the windows into a padding of x."""
    pads = windows["pads"]
    half = len(pads) // 2
    x, windows["pads"] = fixed_pads(op, x, pads[:half], pads[half:], value)
    return x


def _summed(op, x, windows, ceil_mode, divisor):
    """Sum over windows and divide by one number; explicit padding makes all windows whole."""
    kernel, strides, pads = (windows[k] for k in ("kernel_shape", "strides", "pads"))
    count, room = 1, []
    for n, k, s, p in zip(x.shape[2:], kernel, strides, pads):
        count = count * k
        covered = _steps(op, n, k, s, p, 1, ceil_mode) * s + k
        room.append(op.larger(covered - n - p, 0))
    x = op.Pad(x, op.sizes([0, 0, *pads[: len(kernel)], 0, 0, *room]))
    if not x.dtype.is_floating_point:
        mean = op.AveragePool(op.cast(x, torch.float64), kernel_shape=kernel, strides=strides)
        return op.Div(op.cast(op.Round(op.Mul(mean, count)), x.dtype), divisor)
    mean = op.AveragePool(x, kernel_shape=kernel, strides=strides)
    return op.Mul(mean, count / divisor)


# Adaptive pooling: a given number of windows, as even as possible.


def _wanted(input, output_size, spatial):
    sizes = input.shape[-spatial:]
    return sizes, [s if w is None else w for s, w in zip(sizes, pair(output_size, spatial))]


def _even(sizes, wanted):
    """Return the size of the windows if all have the same at every run, else None."""
    if any(
        type(s) is not int or type(w) is not int or w == 0 or s % w for s, w in zip(sizes, wanted)
    ):
        return None
    return [s // w for s, w in zip(sizes, wanted)]


def adaptive_avg_pool(spatial):
    def convert(op, input, output_size):
        sizes, wanted = _wanted(input, output_size, spatial)
        if all(type(w) is int and w == 1 for w in wanted):
            axes = list(range(input.rank - spatial, input.rank))
            return reduction(op, "ReduceMean", input, axes)
        kernel = _even(sizes, wanted)
        if kernel is None:
            return _uneven_mean(op, input, wanted, spatial)
        return _batched(op, input, spatial, lambda x: op.AveragePool(
            x, kernel_shape=kernel, strides=kernel))  # fmt: skip

    return convert


def _borders(op, size, count):
    """Return the first element of each window, and its last + 1."""
    # Without windows, nothing is computed, but onnxruntime still fails on a division by 0.
    steps, size, count = counted(op, count), op.constant(size), op.constant(max(count, 1))
    low = op.Div(op.Mul(steps, size), count)
    high = op.Div(op.Sub(op.Add(op.Mul(op.Add(steps, 1), size), count), 1), count)
    return low, high


def _uneven_mean(op, input, wanted, spatial):
    """Average windows of different sizes, whose borders are computed.

    A sum over a window is the difference of two running sums, so each axis takes a cumulative sum,
    two gathers and a division; sizes may be known at run time only.
    """
    x = op.cast(input, torch.float64) if input.dtype.is_floating_point else input
    for axis in range(input.rank - spatial, input.rank):
        size, count = input.shape[axis], wanted[axis - input.rank + spatial]
        low, high = _borders(op, size, count)
        zeros = [0] * (2 * input.rank)
        zeros[axis] = 1
        running = op.Pad(op.CumSum(x, op.constant(axis)), zeros)
        total = op.Sub(op.Gather(running, high, axis=axis), op.Gather(running, low, axis=axis))
        width = op.cast(op.Sub(high, low), x.dtype)
        trailing = list(range(1, input.rank - axis))
        x = op.Div(total, op.Unsqueeze(width, trailing) if trailing else width)
    return op.cast(x, input.dtype)


def _adaptive_max_pool(spatial, indices=False):
    def convert(op, input, output_size, return_indices=False):
        sizes, wanted = _wanted(input, output_size, spatial)
        kernel = _even(sizes, wanted)
        if kernel is not None:
            pool = _max_pool(spatial, return_indices or indices)
            return pool(op, input, kernel)
        y, places = _uneven_max(op, input, sizes, wanted, spatial)
        return (y, places) if return_indices or indices else y

    return convert


def _uneven_max(op, x, sizes, wanted, spatial):
    """Take maxima of windows of different sizes: extend all to the longest, and mask the excess."""
    lead = x.rank - spatial
    place = reshaped(op, counted(op, _plane(x, spatial)), list(sizes))
    lengths = []
    for i, (size, count) in enumerate(zip(sizes, wanted)):
        low, high = _borders(op, size, count)
        length = (size + max(count, 1) - 1) // max(count, 1) + 1
        lengths.append(length)
        steps = op.Add(op.Unsqueeze(low, [1]), counted(op, length))
        inside = op.Less(steps, op.Unsqueeze(high, [1]))
        steps = op.Min(steps, op.constant(size - 1))
        axis = 2 * i  # each axis of windows so far has become two
        trailing = list(range(2, 2 + spatial - 1 - i))
        mask = op.Unsqueeze(inside, trailing) if trailing else inside
        x = op.Where(mask, op.Gather(x, steps, axis=lead + axis), lowest(x.dtype))
        place = op.Gather(place, steps, axis=axis)
    # o1 k1 o2 k2 -> o1 o2 (k1 k2)
    order = [*range(0, 2 * spatial, 2), *range(1, 2 * spatial, 2)]
    total = 1
    for n in lengths:
        total = n * total
    x = op.Transpose(x, perm=[*range(lead), *(lead + a for a in order)])
    x = reshaped(op, x, [*x.shape[: lead + spatial], total])
    place = reshaped(op, op.Transpose(place, perm=order), [1] * lead + [*wanted, total])
    best = op.ArgMax(x, axis=x.rank - 1, keepdims=1)
    place = op.Expand(place, op.sizes([*x.shape[:-1], total]))
    found = op.GatherElements(place, best, axis=x.rank - 1)
    return op.ReduceMax(x, [x.rank - 1], keepdims=0), op.Squeeze(found, [x.rank - 1])


def _max_unpool(spatial):
    def convert(op, self, indices, output_size, *args, **kwargs):
        sizes = list(output_size)[-spatial:]
        plane = 1
        for n in sizes:
            plane = n * plane
        lead = list(self.shape[:-spatial])
        x, places = (reshaped(op, v, [*lead, _plane(v, spatial)]) for v in (self, indices))
        empty = op.Expand(op.constant(0, self.dtype), op.sizes([*lead, plane]))
        y = op.ScatterElements(empty, places, x, axis=len(lead))
        return reshaped(op, y, [*lead, *sizes])

    return convert


def _shape(n):
    return ",".join(["n", "3", *["8"] * n])


CONVERTERS = []
for _n in (1, 2, 3):
    _x = f"float32[{_shape(_n)}]"
    CONVERTERS += [
        converter(f"torch.nn.functional.max_pool{_n}d", f"torch.max_pool{_n}d",
                  cases=[case(_x, 2), case(_x, 3, 2, 1)])(_max_pool(_n)),
        converter(f"torch.max_pool{_n}d_with_indices" if _n == 1 else
                  f"torch.ops.aten.max_pool{_n}d_with_indices",
                  f"torch.nn.functional.max_pool{_n}d_with_indices",
                  cases=[case(_x, 3, 2, 1)])(_max_pool(_n, indices=True)),
        converter(f"torch.nn.functional.avg_pool{_n}d",
                  cases=[case(_x, 2), case(_x, 3, 2, 1)])(avg_pool(_n)),
        converter(f"torch.nn.functional.adaptive_avg_pool{_n}d",
                  *([f"torch.adaptive_avg_pool{_n}d"] if _n == 1 else []),
                  cases=[case(_x, 1), case(_x, 3)])(adaptive_avg_pool(_n)),
        *([converter(f"torch.ops.aten.adaptive_avg_pool{_n}d",
                     f"torch.ops.aten._adaptive_avg_pool{_n}d",
                     cases=[case(_x, [3] * _n)])(adaptive_avg_pool(_n))] if _n > 1 else []),
        converter(f"torch.nn.functional.adaptive_max_pool{_n}d",
                  cases=[case(_x, 2), case(_x, 3)])(_adaptive_max_pool(_n)),
        converter(f"torch.adaptive_max_pool{_n}d" if _n == 1 else
                  f"torch.ops.aten.adaptive_max_pool{_n}d",
                  f"torch.nn.functional.adaptive_max_pool{_n}d_with_indices",
                  cases=[case(_x, [2] * _n)])(_adaptive_max_pool(_n, indices=True)),
    ]  # fmt: skip


def _corners(n):
    """Make indices for elements of [1, 2, 2, ...] in [1, 2, 4, ...], no two at the same place."""
    return lambda: torch.arange(2 * 2**n).reshape(1, 2, *[2] * n) % 2**n * 3


CONVERTERS += [
    converter(f"torch.ops.aten.max_unpool{n}d", cases=[
        case(f"float32[1,2{',2' * n}]", _corners(n), [4] * n, *([[2] * n, [0] * n] * (n == 3))),
    ])(_max_unpool(n))
    for n in (2, 3)  # one axis is pooled as two
]  # fmt: skip

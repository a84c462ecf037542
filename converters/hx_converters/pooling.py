"""Pooling."""

from __future__ import annotations

from hx import case, converter

from ._common import pair


def _batched(op, x, spatial, pool):
    """Pools with a batch axis in front, which torch lets one leave out."""
    if x.rank == spatial + 2:
        return pool(x)
    return op.Squeeze(pool(op.Unsqueeze(x, [0])), [0])


def _windows(spatial, kernel_size, stride, padding):
    kernel = pair(kernel_size, spatial)
    strides = pair(stride, spatial) if stride not in (None, []) else kernel
    pads = pair(padding, spatial)
    return {"kernel_shape": kernel, "strides": strides, "pads": [*pads, *pads]}


def _max_pool(spatial):
    def convert(op, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                return_indices=False):  # fmt: skip
        if return_indices:
            return NotImplemented
        windows = _windows(spatial, kernel_size, stride, padding)
        return _batched(op, input, spatial, lambda x: op.MaxPool(
            x, **windows, dilations=pair(dilation, spatial), ceil_mode=int(ceil_mode)))  # fmt: skip

    return convert


def _avg_pool(spatial):
    def convert(op, input, kernel_size, stride=None, padding=0, ceil_mode=False,
                count_include_pad=True, divisor_override=None):  # fmt: skip
        if divisor_override is not None:
            return NotImplemented
        windows = _windows(spatial, kernel_size, stride, padding)
        return _batched(op, input, spatial, lambda x: op.AveragePool(
            x, **windows, ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad)))  # fmt: skip

    return convert


def _adaptive_avg_pool(spatial):
    def convert(op, input, output_size):
        wanted = pair(output_size, spatial)
        sizes = input.shape[-spatial:]
        wanted = [s if w is None else w for s, w in zip(sizes, wanted)]
        axes = list(range(-spatial, 0))
        if all(type(w) is int and w == 1 for w in wanted):
            return op.ReduceMean(input, axes)
        if any(type(s) is not int for s in sizes) or any(s % w for s, w in zip(sizes, wanted)):
            return _uneven(op, input, wanted, spatial)
        kernel = [s // w for s, w in zip(sizes, wanted)]
        return _batched(op, input, spatial, lambda x: op.AveragePool(
            x, kernel_shape=kernel, strides=kernel))  # fmt: skip

    return convert


def _uneven(op, input, wanted, spatial):
    """Windows of different sizes: each output is a mean between two computed borders.

    A sum over a window is the difference of two running sums, so one axis at a time is a
    cumulative sum, two gathers and a division; sizes may be known at run time only.
    """
    from hx.lazy import torch

    x = op.cast(input, torch.float64) if input.dtype == torch.float32 else input
    for axis in range(input.rank - spatial, input.rank):
        size, count = input.shape[axis], wanted[axis - input.rank + spatial]
        steps = op.Range(0, op.constant(count), 1)
        low = op.Div(op.Mul(steps, op.constant(size)), op.constant(count))
        high = op.Div(op.Add(op.Mul(op.Add(steps, 1), op.constant(size)),
                             op.constant(count - 1)), op.constant(count))  # fmt: skip
        zeros = [0] * (2 * input.rank)
        zeros[axis] = 1
        running = op.Pad(op.CumSum(x, op.constant(axis)), zeros)
        total = op.Sub(op.Gather(running, high, axis=axis), op.Gather(running, low, axis=axis))
        width = op.cast(op.Sub(high, low), x.dtype)
        trailing = list(range(1, input.rank - axis))
        x = op.Div(total, op.Unsqueeze(width, trailing) if trailing else width)
    return op.cast(x, input.dtype)


for _n in (1, 2, 3):
    _shape = ",".join(["n", "3", *["8"] * _n])
    globals()[f"max_pool{_n}d"] = converter(
        f"torch.nn.functional.max_pool{_n}d", f"torch.max_pool{_n}d",
        cases=[case(f"float32[{_shape}]", 2), case(f"float32[{_shape}]", 3, 2, 1)],
    )(_max_pool(_n))  # fmt: skip
    globals()[f"avg_pool{_n}d"] = converter(
        f"torch.nn.functional.avg_pool{_n}d", cases=[case(f"float32[{_shape}]", 2)],
    )(_avg_pool(_n))  # fmt: skip
    globals()[f"adaptive_avg_pool{_n}d"] = converter(
        f"torch.nn.functional.adaptive_avg_pool{_n}d",
        *([f"torch.adaptive_avg_pool{_n}d"] if _n == 1 else []),
        cases=[case(f"float32[{_shape}]", 1), case(f"float32[{_shape}]", 3)],
    )(_adaptive_avg_pool(_n))  # fmt: skip

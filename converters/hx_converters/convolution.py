"""Convolutions."""

from __future__ import annotations

from hx import case, converter

from . import _own_kernels
from ._common import fixed_pads, pair


def _padding(op, padding, weight, dilation, spatial):
    """Return padding as ONNX attributes: numbers, "valid", or "same" (more at the end)."""
    if padding == "valid":
        return {}
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        return {"pads": [t // 2 for t in total] + [t - t // 2 for t in total]}
    pads = pair(padding, spatial)
    return {"pads": [*pads, *pads]}


def _kernel_shape(weight):
    """Return the sizes of a kernel; None if they may vary: the operator then reads its shape."""
    sizes = list(weight.shape[2:])
    return sizes if all(type(n) is int for n in sizes) else None


def _conv(op, input, weight, bias, stride, padding, dilation, groups):
    spatial = weight.rank - 2
    batched = input.rank == weight.rank
    x = input if batched else op.Unsqueeze(input, [0])
    dilation, stride = pair(dilation, spatial), pair(stride, spatial)
    extent = _padding(op, padding, weight, dilation, spatial)
    if type(groups) is int:
        if "pads" in extent:
            begins, ends = extent["pads"][:spatial], extent["pads"][spatial:]
            x, extent["pads"] = fixed_pads(op, x, begins, ends)
        y = op.Conv(
            x, weight, bias, strides=stride, dilations=dilation, group=groups,
            kernel_shape=_kernel_shape(weight), **extent,
        )  # fmt: skip
    else:
        pads = extent.get("pads", [0] * 2 * spatial)
        y = _own_kernels.convolved(
            op, x, weight, bias, stride, pads[:spatial], pads[spatial:], dilation, groups
        )
    return y if batched else op.Squeeze(y, [0])


@converter("torch.nn.functional.conv1d", cases=[
    case("float32[n,3,9]", "float32[4,3,3]"),
    case("float32[n,3,9]", "float32[4,3,k]", padding=1),
])  # fmt: skip
def conv1d(op, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _conv(op, input, weight, bias, stride, padding, dilation, groups)


@converter(
    "torch.nn.functional.conv2d",
    cases=[case("float32[n,3,h,9]", "float32[4,3,3,3]", "float32[4]", stride=2, padding=1)],
)
def conv2d(op, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _conv(op, input, weight, bias, stride, padding, dilation, groups)


@converter("torch.nn.functional.conv3d", cases=[case("float32[n,3,5,6,7]", "float32[4,3,3,3,3]")])
def conv3d(op, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _conv(op, input, weight, bias, stride, padding, dilation, groups)


@converter("torch.conv_tbc", cases=[case("float32[t,2,3]", "float32[3,3,4]", "float32[4]", 1)])
def conv_tbc(op, input, weight, bias, pad=0):
    """Convolve over axes in the order time, batch, channels."""
    x, kernel = op.Transpose(input, perm=[1, 2, 0]), op.Transpose(weight, perm=[2, 1, 0])
    return op.Transpose(op.Conv(x, kernel, bias, pads=[pad, pad]), perm=[2, 0, 1])


def _may_be_empty(x, weight, pads, more, dilation):
    """Return whether windows may see padding alone, for which onnxruntime raises an error."""
    sizes = zip(x.shape[2:], weight.shape[2:], pads, more, dilation)
    return any(type(n) is not int and d * (k - 1) + 1 + m <= 2 * p for n, k, p, m, d in sizes)


def _transposed(op, input, weight, bias, stride, padding, output_padding, groups, dilation):
    spatial = weight.rank - 2
    batched = input.rank == weight.rank
    x = input if batched else op.Unsqueeze(input, [0])
    pads, more, strides = (pair(v, spatial) for v in (padding, output_padding, stride))
    if any(type(m) is not int for m in more):  # from output_size=: compute the most, and cut
        most = [s - 1 for s in strides]
        y = _transposed(op, input, weight, bias, stride, padding, most, groups, dilation)
        axes = list(range(y.rank - spatial, y.rank))
        ends = [y.shape[axis] - m + n for axis, m, n in zip(axes, most, more)]
        return op.Slice(y, [0] * spatial, op.sizes(ends), axes)
    usual = all(m < s for m, s in zip(more, strides))  # ONNX allows no more

    def transposed(bias, **extent):
        return op.ConvTranspose(
            x, weight, bias, strides=strides, dilations=pair(dilation, spatial), group=groups,
            kernel_shape=_kernel_shape(weight), **extent,
        )  # fmt: skip

    if type(groups) is not int:
        y = _own_kernels.transposed(
            op, x, weight, bias, strides, pads, more, pair(dilation, spatial), groups
        )
    elif usual and _may_be_empty(x, weight, pads, more, pair(dilation, spatial)):
        y = transposed(bias, output_padding=more)
        ends = [-p if p else 2**62 for p in pads]
        y = op.Slice(y, op.constant(pads), op.constant(ends), op.constant(list(range(2, y.rank))))
    elif usual:
        y = transposed(bias, pads=[*pads, *pads], output_padding=more)
    else:  # more output at the end: remove less padding there, then add zeros
        ends = [p - m for p, m in zip(pads, more)]
        y = transposed(None, pads=[*pads, *(max(e, 0) for e in ends)])
        if min(ends) < 0:
            y = op.Pad(y, [0] * (2 + spatial) + [0, 0] + [max(-e, 0) for e in ends])
        if bias is not None:
            y = op.Add(y, op.Unsqueeze(bias, list(range(1, 1 + spatial))))
    return y if batched else op.Squeeze(y, [0])


@converter(
    "torch.ops.aten.convolution_backward",
    cases=[case("float32[n,4,8,8]", "float32[n,3,8,8]", "float32[4,3,3,3]", None, [1, 1], [1, 1],
                [1, 1], False, [0, 0], 1, [True, False, False]),
           case("float32[n,4,4,w=8]", "float32[n,3,9,w=8]", "float32[4,3,3,1]", None, [2, 1],
                [0, 0], [1, 1], False, [0, 0], 1, [True, False, False]),
           case("float32[n,4,16,h=8]", "float32[n,2,8,h=8]", "float32[2,2,2,1]", None, [2, 1],
                [0, 0], [1, 1], True, [0, 0], 2, [True, False, False])],
)  # fmt: skip
def convolution_backward(
    op, grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed,
    output_padding, groups, output_mask,
):  # fmt: skip
    """Compute the gradient of the input alone."""
    spatial = weight.rank - 2
    strides, pads, dilations = (pair(v, spatial) for v in (stride, padding, dilation))
    if list(output_mask) != [True, False, False]:
        return NotImplemented
    if transposed:
        if any(more >= s for more, s in zip(pair(output_padding, spatial), strides)):
            return NotImplemented  # the convolution would give more than there was
        return _conv(op, grad_output, weight, None, strides, pads, dilations, groups), None, None
    sizes = zip(input.shape[2:], grad_output.shape[2:], strides, pads, dilations, weight.shape[2:])
    more = [n - ((out - 1) * s - 2 * p + d * (k - 1) + 1) for n, out, s, p, d, k in sizes]
    if all(type(m) is int for m in more):
        y = _transposed(op, grad_output, weight, None, strides, pads, more, groups, dilations)
        return y, None, None
    none = [0] * spatial
    y = _transposed(op, grad_output, weight, None, strides, none, none, groups, dilations)
    y = op.Pad(y, [0] * (2 + spatial) + [0, 0] + [s - 1 for s in strides])
    ends = op.sizes([n + p for n, p in zip(input.shape[2:], pads)])
    y = op.Slice(y, op.constant(pads), ends, op.constant(list(range(2, y.rank))))
    return y, None, None


@converter("torch.convolution", cases=[
    case("float32[n,3,h,9]", "float32[4,3,3,3]", "float32[4]", [2], [1], [1], False, [0], 1),
    case("float32[n,4,h]", "float32[4,2,3]", None, [2], [1], [1], True, [1], 2),
])  # fmt: skip
def convolution(op, input, weight, bias, stride, padding, dilation, transposed, output_padding,
                groups):  # fmt: skip
    if transposed:
        return conv_transpose(
            op, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return _conv(op, input, weight, bias, stride, padding, dilation, groups)


@converter("torch.nn.functional.conv_transpose3d",
           cases=[case("float32[n,4,2,3,h]", "float32[4,3,2,2,2]", stride=2)])  # fmt: skip
@converter("torch.nn.functional.conv_transpose2d",
           cases=[case("float32[n,4,h,3]", "float32[4,2,3,3]", "float32[4]", 2, 1, 1, groups=2),
                  case("float32[n,4,h,3]", "float32[4,2,3,3]", output_padding=1, dilation=2),
                  case("float32[n,4,h,3]", "float32[4,2,3,3]", None, 2, (2, 1))])  # fmt: skip
@converter("torch.nn.functional.conv_transpose1d",
           cases=[case("float32[n,4,h]", "float32[4,3,3]", "float32[3]", 2, 1)])  # fmt: skip
def conv_transpose(op, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                   dilation=1):  # fmt: skip
    return _transposed(op, input, weight, bias, stride, padding, output_padding, groups, dilation)


@converter("torch.ops.aten._convolution",
           cases=[case("float32[n,3,9]", "float32[4,3,3]", None, [1], [1], [1], False, [0], 1,
                       False, False, True, True)])  # fmt: skip
def convolution_with_flags(op, input, weight, bias, stride, padding, dilation, transposed,
                           output_padding, groups, *flags):  # fmt: skip
    """Convert the overload that TorchScript traces call, with flags for cuDNN and TF32."""
    return convolution(
        op, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )

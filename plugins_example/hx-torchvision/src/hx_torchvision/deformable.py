"""Deformable convolution: every tap of the kernel reads where an offset says."""

from hx import case, converter

from .regions import pair

GROUPS = case(
    "float32[2,4,6,7]", "float32[2,72,4,4]", "float32[6,2,3,3]", "float32[6]",
    stride=(1, 2), padding=(0, 1), mask="float32[2,36,4,4]<1",
    opsets=(16, 19, 26), name="groups and mask",
)  # fmt: skip


@converter("torchvision.ops.deform_conv2d", cases=[
    case("float32[n,3,6,7]", "float32[n,18,4,5]", "float32[4,3,3,3]", opsets=(16, 20, 26)),
    GROUPS,
])  # fmt: skip
def deform_conv2d(op, input, offset, weight, bias=None, stride=(1, 1), padding=(0, 0),
                  dilation=(1, 1), mask=None):  # fmt: skip
    kernel = weight.shape[2:]
    taps = kernel[0] * kernel[1]
    return convolved(op, input, offset, weight, bias, mask, pair(stride), pair(padding),
                     pair(dilation), input.shape[1] // weight.shape[1],
                     offset.shape[1] // (2 * taps))  # fmt: skip


@converter("torchvision::deform_conv2d", cases=[
    case("float32[n,3,6,7]", "float32[4,3,3,2]", "float32[n,12,3,7]", "float32[n,6,3,7]<1",
         "float32[4]", 2, 1, 1, 1, 1, 2, 1, 1, use_mask, opsets=(16, 20, 26))
    for use_mask in (False, True)
])  # fmt: skip
def deform_conv2d_operator(
    op, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w,
    dilation_h, dilation_w, groups, offset_groups, use_mask,
):  # fmt: skip
    return convolved(op, input, offset, weight, bias, mask if use_mask else None,
                     (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w),
                     groups, offset_groups)  # fmt: skip


def convolved(op, input, offset, weight, bias, mask, stride, padding, dilation, groups, apart):
    if op.opset >= 19:
        return op.DeformConv(
            input, weight, offset, bias, mask, strides=stride, pads=[*padding] * 2,
            dilations=dilation, group=groups, offset_group=apart, kernel_shape=weight.shape[2:],
        )  # fmt: skip
    read = sampled(op, input, offset, weight.shape[2:], stride, padding, dilation, apart)
    # [N, channels, taps, out_h * out_w]
    n, channels = input.shape[:2]
    out = offset.shape[2:]
    taps = weight.shape[2] * weight.shape[3]
    if mask is not None:
        each = op.Reshape(mask, op.sizes([n, apart, 1, taps, out[0] * out[1]]))
        split = op.Reshape(read, op.sizes([n, apart, channels // apart, taps, out[0] * out[1]]))
        read = op.Mul(split, each)
    columns = op.Reshape(read, op.sizes([n, groups, channels // groups * taps, out[0] * out[1]]))
    rows = op.Reshape(weight, [groups, weight.shape[0] // groups, -1])
    y = op.Reshape(op.MatMul(rows, columns), op.sizes([n, weight.shape[0], *out]))
    return y if bias is None else op.Add(y, op.Unsqueeze(bias, [1, 2]))


def sampled(op, input, offset, kernel, stride, padding, dilation, apart):
    """What each tap reads, as one tall image: ONNX samples images where a grid says."""
    n, channels, height, width = input.shape
    out_h, out_w = offset.shape[2:]
    taps = kernel[0] * kernel[1]
    # [N * apart, taps, y and x, out_h, out_w]
    moved = op.Reshape(offset, op.sizes([n * apart, taps, 2, out_h, out_w]))
    dy, dx = op.Split(moved, axis=2, num_outputs=2, outputs=2)
    i = [float(t // kernel[1] * dilation[0] - padding[0]) for t in range(taps)]
    j = [float(t % kernel[1] * dilation[1] - padding[1]) for t in range(taps)]

    def places(taken, count, step, axis, moves, size):
        steps = op.Mul(op.cast(op.Range(0, op.constant(count), 1), input.dtype), float(step))
        base = op.Add(op.Unsqueeze(op.constant(taken, input.dtype), [1, 2, 3]),
                      op.Unsqueeze(steps, [1]) if axis == 0 else steps)  # fmt: skip
        # Pixels as -1 to 1 from one border of the image to the other.
        doubled = op.Add(op.Mul(op.Add(base, moves), 2.0), 1.0)
        return op.Sub(op.Div(doubled, op.constant(size, input.dtype)), 1.0)

    y = places(i, out_h, stride[0], 0, dy, height)
    x = places(j, out_w, stride[1], 1, dx, width)
    tall = op.sizes([n * apart, taps * out_h, out_w, 1])
    grid = op.Concat(op.Reshape(x, tall), op.Reshape(y, tall), axis=3)
    images = op.Reshape(input, op.sizes([n * apart, channels // apart, height, width]))
    linear = "linear" if op.opset >= 20 else "bilinear"
    read = op.GridSample(images, grid, mode=linear, padding_mode="zeros", align_corners=0)
    return op.Reshape(read, op.sizes([n, channels, taps, out_h * out_w]))

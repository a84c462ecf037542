"""Convolutions."""

from __future__ import annotations

from hx import case, converter

from ._common import pair


def _padding(op, padding, weight, dilation, spatial):
    """Torch's padding as ONNX attributes: numbers, "valid", or "same" (more at the end)."""
    if padding == "valid":
        return {}
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        return {"pads": [t // 2 for t in total] + [t - t // 2 for t in total]}
    pads = pair(padding, spatial)
    return {"pads": [*pads, *pads]}


def _conv(op, input, weight, bias, stride, padding, dilation, groups):
    spatial = weight.rank - 2
    batched = input.rank == weight.rank
    x = input if batched else op.Unsqueeze(input, [0])
    dilation = pair(dilation, spatial)
    y = op.Conv(
        x, weight, bias,
        strides=pair(stride, spatial), dilations=dilation, group=groups,
        kernel_shape=list(weight.shape[2:]),
        **_padding(op, padding, weight, dilation, spatial),
    )  # fmt: skip
    return y if batched else op.Squeeze(y, [0])


@converter("torch.nn.functional.conv1d", cases=[case("float32[n,3,9]", "float32[4,3,3]")])
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


def _transposed(op, input, weight, bias, stride, padding, output_padding, groups, dilation):
    spatial = weight.rank - 2
    batched = input.rank == weight.rank
    x = input if batched else op.Unsqueeze(input, [0])
    pads = pair(padding, spatial)
    y = op.ConvTranspose(
        x, weight, bias,
        strides=pair(stride, spatial), dilations=pair(dilation, spatial), group=groups,
        pads=[*pads, *pads], output_padding=pair(output_padding, spatial),
        kernel_shape=list(weight.shape[2:]),
    )  # fmt: skip
    return y if batched else op.Squeeze(y, [0])


@converter(
    "torch.nn.functional.conv_transpose1d", "torch.nn.functional.conv_transpose2d",
    "torch.nn.functional.conv_transpose3d", cases=[],
)  # fmt: skip
def conv_transpose(op, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                   dilation=1):  # fmt: skip
    return _transposed(op, input, weight, bias, stride, padding, output_padding, groups, dilation)

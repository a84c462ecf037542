"""The parts of sparse layers, each one node of the domain `spconv`."""

from hx.lazy import torch

DOMAIN = "spconv"


def beside(op, indices, geometry):
    return _node(
        op, "SubMPairs", indices,
        results=[(torch.int32, (geometry.volume, indices.shape[0]))],
        spatial_shape=geometry.shape, kernel_shape=geometry.kernel, dilations=geometry.dilation,
    )  # fmt: skip


def strided(op, indices, geometry):
    return _node(
        op, "ConvPairs", indices,
        results=[
            (indices.dtype, ("points", indices.shape[1])),
            (torch.int32, (geometry.volume, "points")),
            (torch.int32, (geometry.volume, indices.shape[0])),
        ],
        spatial_shape=geometry.shape, out_spatial_shape=geometry.out_shape,
        kernel_shape=geometry.kernel, strides=geometry.stride, pads=geometry.padding,
        dilations=geometry.dilation, transposed=geometry.transposed,
    )  # fmt: skip


def convolve(op, features, weight, bias, pairs):
    shape = (pairs.shape[1], weight.shape[0])
    given = [features, pairs, weight] + ([] if bias is None else [bias])
    return _node(op, "Conv", *given, results=[(features.dtype, shape)])


def largest(op, features, pairs, from_zero):
    shape = (pairs.shape[1], features.shape[1])
    return _node(
        op, "MaxPool", features, pairs, results=[(features.dtype, shape)], from_zero=from_zero
    )


def dense(op, x, channels_first):
    batch, channels, space = x.batch_size, x.features.shape[1], x.spatial_shape
    shape = (batch, channels, *space) if channels_first else (batch, *space, channels)
    return _node(
        op, "ToDense", x.features, x.indices, results=[(x.features.dtype, shape)],
        batch_size=batch, spatial_shape=space, channels_first=channels_first,
    )  # fmt: skip


def _node(op, name, *inputs, **said):
    return op(DOMAIN, name, *inputs, version=1, **said)

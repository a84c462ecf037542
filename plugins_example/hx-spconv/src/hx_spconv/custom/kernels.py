"""What the operators compute, in numpy, so that hx can verify graphs that use them.

Written from spconv's definitions and in the order in which its CPU code works: the points that
come out of a strided layer are numbered as they are first reached, place of the kernel by place.
"""

import itertools

from hx.lazy import numpy


def subm_pairs(indices, spatial_shape, kernel_shape, dilations):
    """[places, points]: the row of the point that lies at each place around each point, or -1."""
    points = indices.astype(numpy.int64)
    rows = {tuple(point): row for row, point in reversed(list(enumerate(points.tolist())))}
    pairs = numpy.full((_volume(kernel_shape), len(points)), -1, numpy.int32)
    for place, at in enumerate(_places(kernel_shape)):
        away = [(a - k // 2) * d for a, k, d in zip(at, kernel_shape, dilations)]
        there = points + numpy.array([0, *away])
        pairs[place] = [rows.get(tuple(point), -1) for point in there.tolist()]
    return pairs


def conv_pairs(
    indices, spatial_shape, out_spatial_shape, kernel_shape, strides, pads, dilations, transposed=0
):
    """The points that are reached; [places, points out] and [places, points in], rows or -1."""
    points = indices.astype(numpy.int64)
    out: dict = {}
    found = []
    for place, at in enumerate(_places(kernel_shape)):
        reach = numpy.array(at) * dilations
        if transposed:
            to = points[:, 1:] * strides - pads + reach
            hit = numpy.ones(len(points), bool)
        else:
            moved = points[:, 1:] + pads - reach
            to = moved // strides
            hit = (to * strides == moved).all(1)
        hit &= ((to >= 0) & (to < out_spatial_shape)).all(1)
        for row in numpy.flatnonzero(hit).tolist():
            cell = (int(points[row, 0]), *to[row].tolist())
            found.append((place, row, out.setdefault(cell, len(out))))
    pairs = numpy.full((_volume(kernel_shape), len(out)), -1, numpy.int32)
    back = numpy.full((_volume(kernel_shape), len(points)), -1, numpy.int32)
    for place, row, made in found:
        pairs[place, made], back[place, row] = row, made
    cells = numpy.array(list(out), indices.dtype).reshape(-1, indices.shape[1])
    return cells, pairs, back


def conv(features, pairs, weight, bias=None):
    kernel = weight.reshape(len(weight), len(pairs), -1)
    out = numpy.zeros((pairs.shape[1], len(weight)), features.dtype)
    for place, rows in enumerate(pairs):
        there = rows >= 0
        out[there] += features[rows[there]] @ kernel[:, place].T
    return out if bias is None else out + bias


def max_pool(features, pairs, from_zero=0):
    lowest = 0 if from_zero else -numpy.inf
    out = numpy.full((pairs.shape[1], features.shape[1]), lowest, features.dtype)
    for rows in pairs:
        there = rows >= 0
        out[there] = numpy.maximum(out[there], features[rows[there]])
    return out


def to_dense(features, indices, batch_size, spatial_shape, channels_first=1):
    out = numpy.zeros((batch_size, *spatial_shape, features.shape[1]), features.dtype)
    out[tuple(indices.T)] = features
    return numpy.moveaxis(out, -1, 1) if channels_first else out


def _places(kernel_shape):
    return itertools.product(*map(range, kernel_shape))


def _volume(kernel_shape):
    return int(numpy.prod(kernel_shape))

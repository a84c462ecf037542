"""The parts of sparse layers, said in ONNX's own operators.

A point's cell has a number: its place in the flattened (batch, z, y, x). Cells at a fixed distance
have numbers at a fixed distance, so that neighbours are found by adding, and by a binary search
among the numbers of all points. No dense grid is made: what it takes grows with the points, and
not with the space.
"""

from hx.lazy import torch
from hx_spconv.geometry import strides

FAR = 2**62


def beside(op, indices, geometry):
    """[places, points]: the row of the point that lies at each place around each point, or -1."""
    # A margin behind each line: what lies beyond the end of one is no cell of the next.
    reach = [k // 2 * d for k, d in zip(geometry.kernel, geometry.dilation)]
    steps = strides([n + r for n, r in zip(geometry.shape, reach)])
    cells = _numbers(op, op.cast(indices, torch.int64), steps)
    away = [
        sum((p - k // 2) * d * s for p, k, d, s in
            zip(place, geometry.kernel, geometry.dilation, steps[1:]))
        for place in geometry.places
    ]  # fmt: skip
    return _rows_of(op, cells, op.Add(cells, [[n] for n in away]))


def _numbers(op, coordinates, steps):
    return op.Squeeze(op.MatMul(coordinates, op.constant([[n] for n in steps])), [-1])


def _rows_of(op, cells, wanted):
    """Where each wanted number stands among the numbers of the cells; -1 for those that do not."""
    count = op.Shape(cells)
    ordered, rows = op.TopK(cells, count, largest=0, outputs=2)
    powers = op.constant([2**i for i in range(31)])
    rounds = op.ReduceSum(op.cast(op.Less(powers, count), torch.int64), keepdims=0)
    last = op.Sub(count, 1)

    def closer(i, _, at):
        """As far to the right as half of what is left, where that is not too far."""
        half = op.Gather(powers, op.Sub(op.Sub(rounds, 1), i))
        further = op.Min(op.Add(at, half), last)
        fits = op.LessOrEqual(op.Gather(ordered, further), wanted)
        return op.constant(True), op.Where(fits, further, at)

    start = op.Sub(wanted, wanted)
    inputs = [
        op.input(torch.int64, ()),
        op.input(torch.bool, ()),
        op.input(torch.int64, start.shape),
    ]
    at = op.Loop(rounds, None, start, body=op.body(closer, *inputs), outputs=1)[0]
    at.sized(start.shape)
    return op.Where(op.Equal(op.Gather(ordered, at), wanted), op.Gather(rows, at), -1)


def strided(op, indices, geometry):
    """The points that are reached, in spconv's order, and who reads whom."""
    coordinates = op.cast(indices, torch.int64)
    count, rank = op.Shape(indices, start=0, end=1), len(geometry.shape)
    batch, point = op.Split(coordinates, [1, rank], axis=1, outputs=2)
    # Through which place of the kernel does a point reach which cell?
    shifts = [
        [[q * d - p if geometry.transposed else p - q * d
          for q, d, p in zip(place, geometry.dilation, geometry.padding)]]
        for place in geometry.places
    ]  # fmt: skip
    if geometry.transposed:
        to = op.Add(op.Mul(point, geometry.stride), shifts)
        hits = []
    else:
        moved = op.Add(point, shifts)
        to = op.Div(moved, geometry.stride)
        hits = [op.Equal(op.Mul(to, geometry.stride), moved)]
    hits += [op.GreaterOrEqual(to, 0), op.Less(to, geometry.out_shape)]
    hit = hits[0]
    for other in hits[1:]:
        hit = op.And(hit, other)
    hit = op.ReduceMin(op.cast(hit, torch.int32), [2], keepdims=0)
    found = op.Reshape(op.NonZero(op.Reshape(hit, [-1])), [-1])  # place by place, point by point
    steps = strides(geometry.out_shape)
    cells = op.Add(_numbers(op, to, steps[1:]), op.Reshape(op.Mul(batch, steps[0]), [-1]))
    reached = op.Gather(op.Reshape(cells, [-1]), found)
    cell, _, row, _ = op.Unique(reached, sorted=0, outputs=4)
    sizes = [FAR, *geometry.out_shape]
    out = op.Mod(op.Div(op.Unsqueeze(cell, [1]), steps), sizes)
    made = op.Shape(cell)
    place, point_in = op.Div(found, count), op.Mod(found, count)
    pairs = _table(op, geometry.volume, made, op.Add(op.Mul(place, made), row), point_in)
    back = _table(op, geometry.volume, count, found, row)
    for table, value in ((pairs, cell), (back, indices)):
        table.sized((geometry.volume, value.shape[0]))
    return op.cast(out, indices.dtype), pairs, back


def _table(op, places, count, at, rows):
    """[places, count] of -1, with rows at some positions."""
    size = op.Concat(op.constant([places]), count, axis=0)
    empty = op.Expand(op.constant([-1]), op.ReduceProd(size))
    return op.Reshape(op.ScatterElements(empty, at, rows, axis=0), size)


def convolve(op, features, weight, bias, pairs):
    """What a point reads, side by side in one row; then one product of matrices."""
    out_channels, *_, channels = weight.shape
    read = _read(op, features, pairs, 0.0)
    rows = op.Reshape(read, [-1, pairs.shape[0] * channels])
    return op.Gemm(rows, op.Reshape(weight, [out_channels, -1]), bias, transB=1)


def largest(op, features, pairs, from_zero):
    found = op.ReduceMax(
        _read(op, features, pairs, 0.0 if from_zero else -float("inf")), [1], keepdims=0
    )
    return op.Relu(found) if from_zero else found


def dense(op, x, channels_first):
    rank, channels = len(x.spatial_shape), x.features.shape[1]
    space = op.sizes([x.batch_size, *x.spatial_shape, channels])
    empty = op.Expand(op.constant(0, x.features.dtype), space)
    filled = op.ScatterND(empty, op.cast(x.indices, torch.int64), x.features)
    return (
        op.Transpose(filled, perm=[0, rank + 1, *range(1, rank + 1)]) if channels_first else filled
    )


def _read(op, features, pairs, absent):
    """[points, places, channels]; -1 is the last row, which is added here."""
    nothing = op.constant([[absent] * features.shape[1]], features.dtype)
    return op.Gather(op.Concat(features, nothing, axis=0), op.Transpose(pairs, perm=[1, 0]))

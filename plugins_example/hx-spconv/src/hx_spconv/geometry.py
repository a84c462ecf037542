"""Which points a layer reads and makes, as plain numbers."""

import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Geometry:
    shape: list[int]  # of the space that the points lie in
    out_shape: list[int]
    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    transposed: bool = False

    @property
    def places(self):
        """The places of the kernel, as spconv counts them."""
        return list(itertools.product(*map(range, self.kernel)))

    @property
    def volume(self):
        return math.prod(self.kernel)


def strides(sizes):
    """What a step along each axis of (batch, *sizes) adds to the number of a cell."""
    return [math.prod(sizes[i:]) for i in range(len(sizes) + 1)]

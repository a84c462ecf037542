"""spconv's layers as operators of their own.

They come after those in standard operators, so that they are taken only where somebody asks:
`--use "spconv.*=spconv-custom"`.
"""

from hx import converter
from hx_spconv import examples, layers
from hx_spconv.custom import form

AFTER = -1


@converter(
    "spconv.pytorch.conv.SparseConvolution.forward",
    domain=form.DOMAIN,
    priority=AFTER,
    cases=examples.convolutions(["spconv::SubMPairs"], ["spconv::Conv"]),
)
def convolution(op, self, input, add_input=None):
    """SubMConv3d, SparseConv3d, SparseInverseConv3d, SparseConvTranspose3d: all are one class."""
    return layers.convolution(op, form, self, input, add_input)


@converter(
    "spconv.pytorch.pool.SparseMaxPool.forward",
    domain=form.DOMAIN,
    priority=AFTER,
    cases=examples.pools(["spconv::MaxPool"]),
)
def max_pool(op, self, input):
    return layers.max_pool(op, form, self, input)


@converter(
    "spconv.pytorch.core.SparseConvTensor.dense",
    domain=form.DOMAIN,
    priority=AFTER,
    cases=examples.layouts(["spconv::ToDense"]),
)
def dense(op, self, channels_first=True):
    return form.dense(op, self, channels_first)


@converter(
    "spconv.pytorch.modules.SparseSequential.forward",
    priority=AFTER,
    cases=examples.sequences(),
)
def sequential(op, self, input):
    return layers.sequential(op, self, input)


@converter(
    "spconv.pytorch.core.SparseConvTensor.from_dense", priority=AFTER, cases=examples.fields()
)
def from_dense(op, cls, x):
    return layers.from_dense(op, cls, x)

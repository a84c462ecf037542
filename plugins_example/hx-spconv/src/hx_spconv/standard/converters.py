"""spconv's layers in ONNX's own operators."""

from hx import converter
from hx_spconv import examples, layers
from hx_spconv.standard import form


@converter(
    "spconv.pytorch.conv.SparseConvolution.forward",
    cases=examples.convolutions(["Loop"], ["Gemm"]),
)
def convolution(op, self, input, add_input=None):
    """SubMConv3d, SparseConv3d, SparseInverseConv3d, SparseConvTranspose3d: all are one class."""
    return layers.convolution(op, form, self, input, add_input)


@converter("spconv.pytorch.pool.SparseMaxPool.forward", cases=examples.pools(["ReduceMax"]))
def max_pool(op, self, input):
    return layers.max_pool(op, form, self, input)


@converter("spconv.pytorch.core.SparseConvTensor.dense", cases=examples.layouts(["ScatterND"]))
def dense(op, self, channels_first=True):
    return form.dense(op, self, channels_first)


@converter("spconv.pytorch.modules.SparseSequential.forward", cases=examples.sequences())
def sequential(op, self, input):
    return layers.sequential(op, self, input)


@converter("spconv.pytorch.core.SparseConvTensor.from_dense", cases=examples.fields())
def from_dense(op, cls, x):
    return layers.from_dense(op, cls, x)

"""What the pack `spconv-custom` gives to hx."""

from hx import ReferenceKernel
from hx_spconv.container import CONTAINER
from hx_spconv.custom import kernels

HX_API = 1


def hx_converters():
    return ["hx_spconv.custom.converters"]


def hx_containers():
    return [CONTAINER]


def hx_reference_kernels():
    return [
        ReferenceKernel("spconv", "SubMPairs", kernels.subm_pairs),
        ReferenceKernel("spconv", "ConvPairs", kernels.conv_pairs),
        ReferenceKernel("spconv", "Conv", kernels.conv),
        ReferenceKernel("spconv", "MaxPool", kernels.max_pool),
        ReferenceKernel("spconv", "ToDense", kernels.to_dense),
    ]

"""Hooks of this pack, which hx calls."""

HX_API = 1


def hx_converters():
    return ["hx_kernels.flash_attn", "hx_kernels.mamba", "hx_kernels.causal_conv1d"]

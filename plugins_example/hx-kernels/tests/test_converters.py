"""A test of every case, at several opsets, static and dynamic."""

from hx.testing import tests_of

test_converters = tests_of("hx_kernels.flash_attn", "hx_kernels.mamba", "hx_kernels.causal_conv1d")

"""A test of every case, at several opsets, static and dynamic; Spline runs in its numpy kernel."""

from hx_spline import plugin

from hx.testing import tests_of

test_converters = tests_of(
    "hx_spline.converters", kernels=plugin.hx_reference_kernels(), containers=plugin.hx_containers()
)

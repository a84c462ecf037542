"""A test of every case, at several opsets, static and dynamic."""

from hx.testing import tests_of

# With all that the hooks give: kernels and containers, too.
test_converters = tests_of("hx_hardswish.plugin")

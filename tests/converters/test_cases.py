"""Every case of every standard converter, at several opsets, static and dynamic."""

from hx.testing import tests_of
from hx_converters.standard_pack import hx_converters

test_standard_converters = tests_of(*hx_converters())

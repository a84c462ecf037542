"""A test of every case, at several opsets, static and dynamic."""

from hx.testing import tests_of

test_converters = tests_of("hx_ort.converters")

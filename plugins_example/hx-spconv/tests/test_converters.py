"""A test of every case of both forms, at several opsets."""

import pytest
from hx_spconv.custom import plugin

from hx.testing import tests_of

pytest.importorskip("spconv", reason="spconv is not installed: see 'Run the tests' in the README")

test_standard = tests_of("hx_spconv.standard.converters", containers=plugin.hx_containers())
test_custom = tests_of(
    "hx_spconv.custom.converters",
    containers=plugin.hx_containers(),
    kernels=plugin.hx_reference_kernels(),
)

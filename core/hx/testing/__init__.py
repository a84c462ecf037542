"""The test kit for authors of packs: what hx itself is tested with.

In `tests/conftest.py`:

    pytest_plugins = ["hx.testing.plugin"]

In a test file, one line makes a test of each case, at each opset and dtype, static and dynamic:

    from hx.testing import tests_of

    test_converters = tests_of("hx_mylib.plugin")

That is the module with the hooks: kernels and containers that they give are there in each test.
Modules of converters can be named instead, with `kernels=[...]` and `containers=[...]` beside them.
Each test exports a model that makes the case's call, with the converters under test and no other,
and checks that the converter was used, that onnx's checker takes the graph, that the graph
computes what the call computes (in onnxruntime, or with reference kernels), that it holds the
operators that the case expects, and that everything that was patched is as it was.

The fixture `hx_registry` is an empty registry to add converters to; installed packs cannot leak
in. The fixture `hx_check` runs a model with it:

    def test_mine(hx_check):
        hx_check(MyModel(), torch.randn(2, 3), converters=[my_converter], expect=["Gelu"])
"""

from hx.testing.cases import CaseFailure, CaseRun, CaseSkipped, check, runs_of
from hx.testing.generate import tests_of

__all__ = ["CaseFailure", "CaseRun", "CaseSkipped", "check", "runs_of", "tests_of"]

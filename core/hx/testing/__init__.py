"""Test kit for authors of packs; hx's own tests use it, too.

In `tests/conftest.py`:

    pytest_plugins = ["hx.testing.plugin"]

In a test file, one line makes a test of each case, at each opset and dtype, static and dynamic:

    from hx.testing import tests_of

    test_converters = tests_of("hx_mylib.plugin")

That is the module with the hooks: each test has the kernels and containers that they contribute.
Modules of converters can be named instead, together with `kernels=[...]` and `containers=[...]`.
Each test exports a model that makes the case's call, with the converters under test and no other,
and checks that the converter was used, that onnx's checker accepts the graph, that the graph
computes what the call computes (in onnxruntime, or with reference kernels), that it holds the
operators that the case expects, and that everything patched was restored. The first opset of a case
is proved in full. Files of the others are compared on the same inputs, and proved in full as well
where they differ.

The fixture `hx_registry` is an empty registry to add converters to; installed packs cannot leak
in. The fixture `hx_check` runs a model with it:

    def test_mine(hx_check):
        hx_check(MyModel(), torch.randn(2, 3), converters=[my_converter], expect=["Gelu"])

`load_model("acme:net", registry.sources)` makes a model from a SPEC as the command line does, and
`Session(file)` runs an ONNX file in onnxruntime, with torch tensors in and out.
"""

from hx.inputs.spec import load as load_model
from hx.runtime import Session
from hx.testing.cases import CaseFailure, CaseRun, CaseSkipped, check, runs_of
from hx.testing.generate import tests_of

__all__ = [
    "CaseFailure",
    "CaseRun",
    "CaseSkipped",
    "Session",
    "check",
    "load_model",
    "runs_of",
    "tests_of",
]

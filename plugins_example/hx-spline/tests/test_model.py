"""A whole model by its name, exported with what is installed."""

import hx
from hx import Registry
from hx.testing import load_model


def test_the_regressor_is_one_spline_between_two_layers(tmp_path):
    registry = Registry.installed()
    model = load_model("acme:regressor", registry.sources)
    program = hx.export(model.model, model.args, tmp_path / "m.onnx", dynamic={"x": {0: "batch"}})
    assert [node.op_type for node in program.model.graph].count("Spline") == 1
    assert program.report.proof.ok
    assert program.model.metadata_props["com.acme.runtime"] == ">=1.0"

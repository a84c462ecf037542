import os

# spconv's CPU code races between threads (see the README): before its runtime is loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest

import hx

pytest_plugins = ["hx.testing.plugin"]

FORMS = {"standard": {}, "custom": {"spconv.*": "spconv-custom"}}


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture
def export(form, tmp_path):
    """Exports in one of the two forms, for any number of points; returns program and path."""

    def run(model, args, dynamic=None, **options):
        path = tmp_path / "model.onnx"
        packs = hx.Registry.installed(use=FORMS[form])
        program = hx.export(model.eval(), args, path, dynamic=dynamic, packs=packs, **options)
        assert program.proof.ok
        if form == "standard":
            assert {node.domain for node in program.model.graph} == {""}
        return program, path

    return run


@pytest.fixture
def in_onnxruntime():
    """Runs a file in onnxruntime as it is installed, with nothing of hx."""
    import onnxruntime

    def run(path, *inputs):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
        return session.run(None, {n: x.numpy() for n, x in zip(names, inputs)})

    return run

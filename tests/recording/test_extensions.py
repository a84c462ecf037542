"""Compiled code that a model calls directly: named with its line and how to hook it, never a graph.

A C library through ctypes, and a C++ extension of PyTorch through pybind11, both built here.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest
import torch

import hx

C_SOURCE = """
void twice(const float *in, float *out, long n) { for (long i = 0; i < n; i++) out[i] = 2 * in[i]; }
void bump(float *x, long n) { for (long i = 0; i < n; i++) x[i] += 1; }
float total(const float *x, long n) { float s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }
"""

C_MODELS = """
import ctypes
import torch

lib = ctypes.CDLL(LIBRARY)
lib.twice.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
lib.bump.argtypes = [ctypes.c_void_p, ctypes.c_long]
lib.total.argtypes, lib.total.restype = [ctypes.c_void_p, ctypes.c_long], ctypes.c_float


def doubled(x):
    out = torch.empty_like(x)
    lib.twice(x.data_ptr(), out.data_ptr(), x.numel())  # called
    return out


class Filled(torch.nn.Module):
    def forward(self, x):
        return doubled(x.contiguous()) + 1


class Bumped(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        lib.bump(y.data_ptr(), y.numel())  # called
        return y + 1


class Total(torch.nn.Module):
    def forward(self, x):
        return x * lib.total(x.data_ptr(), x.numel())  # called


class Looked(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        assert y.data_ptr() % 4 == 0
        y += 1
        return y * 2
"""

CPP_SOURCE = """
#include <torch/csrc/utils/pybind.h>
#include <ATen/ATen.h>

at::Tensor filled(const at::Tensor& x) {  // memory by PyTorch, contents by itself
  auto out = at::empty_like(x);
  for (int64_t i = 0; i < x.numel(); i++) out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
  return out;
}
at::Tensor blob(const at::Tensor& x) {  // memory of its own
  auto data = new float[x.numel()];
  for (int64_t i = 0; i < x.numel(); i++) data[i] = 2 * x.data_ptr<float>()[i];
  return at::from_blob(data, x.sizes(), [](void* p) { delete[] static_cast<float*>(p); }, at::kFloat);
}
void scale(at::Tensor x) {  // in place, and nobody is told
  for (int64_t i = 0; i < x.numel(); i++) x.data_ptr<float>()[i] *= 2;
}
double total(const at::Tensor& x) {  // a number
  double sum = 0;
  for (int64_t i = 0; i < x.numel(); i++) sum += x.data_ptr<float>()[i];
  return sum;
}
at::Tensor composed(const at::Tensor& x) { return at::relu(x) * 2; }  // operators, which are seen
at::Tensor rows(const at::Tensor& x) {  // operators that write, row by row, through views of views
  auto out = at::full({2, 4}, 0.5);
  for (int64_t i = 0; i < 2; i++) out.select(0, i).narrow(0, 0, 3).copy_(x.select(0, i)).mul_(2);
  return out;
}

PYBIND11_MODULE(NAME, m) {
  m.def("filled", &filled); m.def("blob", &blob); m.def("scale", &scale); m.def("total", &total);
  m.def("composed", &composed); m.def("rows", &rows);
}
"""

CPP_MODELS = """
import torch
import hx_test_extension as ext
from hx_test_extension import blob, filled

TABLE = {"filled": filled}

class Filled(torch.nn.Module):
    def forward(self, x):
        return torch.relu(ext.filled(x * 2))  # called


class Returned(torch.nn.Module):
    def forward(self, x):
        return ext.filled(x)  # called


class Blob(torch.nn.Module):
    def forward(self, x):
        y = ext.blob(x)  # called
        return y + 1


class BlobReturned(torch.nn.Module):
    def forward(self, x):
        return ext.blob(x)  # called


class Scaled(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        ext.scale(y)  # called
        return y * 3


class Total(torch.nn.Module):
    def forward(self, x):
        return x * ext.total(x)  # called


class Named(torch.nn.Module):
    def forward(self, x):
        return torch.relu(filled(x * 2))


class Kept(torch.nn.Module):
    table = {"filled": ext.filled}

    def __init__(self):
        super().__init__()
        self.filled, self.ways = ext.filled, {"blob": ext.blob}

    def forward(self, x):
        return TABLE["filled"](x) + self.filled(x) + self.ways["blob"](x) + ext.filled(x)


class Both(torch.nn.Module):
    def forward(self, x):
        y = ext.filled(x)  # called
        return torch.relu(y) + blob(y)


class Rows(torch.nn.Module):
    def forward(self, x):
        return ext.rows(x) + 1


class Composed(torch.nn.Module):
    def forward(self, x):
        return ext.composed(x) + 1
"""


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def built(command, kind):
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} to build {kind} with")
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def by_ctypes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ctypes")
    (folder / "lib.c").write_text(C_SOURCE)
    library = folder / "lib.so"
    built(["gcc", "-shared", "-fPIC", folder / "lib.c", "-o", library], "a C library")
    (folder / "models.py").write_text(C_MODELS.replace("LIBRARY", repr(str(library))))
    yield load("hx_test_ctypes_models", folder / "models.py")
    del sys.modules["hx_test_ctypes_models"]


@pytest.fixture(scope="module")
def by_pybind(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pybind")
    (folder / "ext.cpp").write_text(CPP_SOURCE.replace("NAME", "hx_test_extension"))
    torch_folder = Path(torch.__file__).parent
    includes = [torch_folder / "include", sysconfig.get_paths()["include"]]
    library = folder / "hx_test_extension.so"
    libraries = ["-ltorch", "-ltorch_cpu", "-lc10", "-ltorch_python"]
    built(
        ["g++", "-O0", "-std=c++20", "-shared", "-fPIC", *(f"-I{each}" for each in includes),
         folder / "ext.cpp", f"-L{torch_folder / 'lib'}", *libraries, "-o", library],
        "an extension of PyTorch",
    )  # fmt: skip
    (folder / "models.py").write_text(CPP_MODELS)
    load("hx_test_extension", library)
    yield load("hx_test_pybind_models", folder / "models.py")
    del sys.modules["hx_test_extension"], sys.modules["hx_test_pybind_models"]


def refusal(model, path, kind, **options):
    """The message, given that nothing was written."""
    with pytest.raises(kind) as caught:
        hx.export(model, torch.randn(2, 3), path, **options)
    assert not path.exists() and not list(path.parent.iterdir())
    return str(caught.value)


def line_called(module, name):
    """file:line of the marked call in a model, or of the one in a function that it calls."""
    lines = Path(module.__file__).read_text().splitlines()
    first = next((i for i, text in enumerate(lines) if text.startswith(f"class {name}(")))
    inside = [i for i, text in enumerate(lines) if "# called" in text]
    after = [i for i in inside if first < i < first + 6]
    return f"{module.__file__}:{(after or inside)[0] + 1}"


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", ["Filled", "Bumped"])
def test_a_library_that_writes_through_an_address_stops_the_export(
    by_ctypes, tmp_path, name, verify
):
    model = getattr(by_ctypes, name)()
    message = refusal(model, tmp_path / "m.onnx", hx.Unaccounted, verify=verify)
    assert "was written to, and no recorded call did that" in message
    assert f"where: {line_called(by_ctypes, name)}" in message
    assert "is compiled code that is called directly" in message
    function = "doubled" if name == "Filled" else "Bumped.forward"
    assert f"hx packs new my-pack --target hx_test_ctypes_models.{function}" in message


def test_a_number_from_a_library_fails_the_proof_and_is_named(by_ctypes, tmp_path):
    message = refusal(by_ctypes.Total(), tmp_path / "m.onnx", hx.VerificationError)
    assert f"lib.total at {line_called(by_ctypes, 'Total')}" in message
    assert "--target hx_test_ctypes_models.Total.forward" in message


def test_an_address_that_is_only_looked_at_does_no_harm(by_ctypes):
    program = hx.export(by_ctypes.Looked(), torch.randn(2, 3))
    assert program.proof.ok and [e.kind for e in program.report.escapes] == ["data_ptr"]


def test_the_function_around_a_library_can_be_converted(by_ctypes):
    @hx.converter("hx_test_ctypes_models.doubled")
    def doubled(op, x):
        return op.Mul(x, 2)

    packs = hx.Registry.installed()
    packs.add(doubled)
    program = hx.export(by_ctypes.Filled(), torch.randn(2, 3), packs=packs)
    assert [node.op_type for node in program.model.graph] == ["Mul", "Add"]
    assert not program.report.notes


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", ["Filled", "Returned", "Blob", "BlobReturned"])
def test_tensors_of_an_extension_stop_the_export(by_pybind, tmp_path, name, verify):
    model = getattr(by_pybind, name)()
    message = refusal(model, tmp_path / "m.onnx", hx.MissingConverters, verify=verify)
    function = "ext.blob" if "Blob" in name else "ext.filled"
    target = function.replace("ext", "hx_test_extension")
    assert f"{target} ({function} is compiled code): 1 call" in message
    assert line_called(by_pybind, name) in message
    assert f"hx packs new my-pack --target {target}" in message


@pytest.mark.parametrize("name", ["Scaled", "Total"])
def test_what_an_extension_does_unseen_fails_the_proof_and_is_named(by_pybind, tmp_path, name):
    message = refusal(getattr(by_pybind, name)(), tmp_path / "m.onnx", hx.VerificationError)
    function = "scale" if name == "Scaled" else "total"
    assert f"ext.{function} at {line_called(by_pybind, name)}" in message
    assert f"hx packs new my-pack --target hx_test_extension.{function}" in message
    if name == "Scaled":
        assert "unseen: a tensor of shape [2, 3] made at" in message
    program = hx.export(getattr(by_pybind, name)(), torch.randn(2, 3), verify=False)
    assert any(f"ext.{function} at" in text for text in program.report.notes)


def test_operators_that_an_extension_calls_are_recorded(by_pybind):
    program = hx.export(by_pybind.Composed(), torch.randn(2, 3))
    assert [node.op_type for node in program.model.graph] == ["Relu", "Mul", "Add"]
    assert not program.report.notes and not program.report.escapes


def test_views_that_an_extension_writes_to_are_followed(by_pybind):
    program = hx.export(by_pybind.Rows(), torch.randn(2, 3))
    x = torch.randn(2, 3)
    expected = torch.cat([2 * x, torch.full((2, 1), 0.5)], 1) + 1
    torch.testing.assert_close(program.run(x), expected)


def test_functions_of_an_extension_can_be_converted(by_pybind):
    @hx.converter("hx_test_extension.filled", "hx_test_extension.blob")
    def twice(op, x):
        return op.Mul(x, 2)

    packs = hx.Registry.installed()
    packs.add(twice)
    for name in ("Filled", "Blob", "Named", "Kept"):
        model = getattr(by_pybind, name)()
        before = [dict(vars(by_pybind)), dict(by_pybind.TABLE), dict(vars(model).get("ways", {}))]
        program = hx.export(model, torch.randn(2, 3), packs=packs, dynamic={"x": [0]})
        assert program.proof.ok and not program.report.notes
        after = [dict(vars(by_pybind)), by_pybind.TABLE, vars(model).get("ways", {})]
        assert all(a[key] is b[key] for a, b in zip(before, after) for key in a)


def test_all_functions_of_an_extension_are_missing_at_once(by_pybind):
    scanned = hx.scan(by_pybind.Both(), torch.randn(2, 3))
    missing = [each.target for each in scanned.missing]
    assert set(missing) == {"hx_test_extension.filled", "hx_test_extension.blob"}
    with pytest.raises(hx.MissingConverters) as caught:
        hx.export(by_pybind.Both(), torch.randn(2, 3))
    assert line_called(by_pybind, "Both") in str(caught.value)
    assert "--target hx_test_extension.filled" in str(caught.value)


def test_an_operator_of_torch_library_is_missing_until_somebody_converts_it(tmp_path):
    library = torch.library.Library("hx_test_ops", "DEF")
    library.define("swirl(Tensor x, float by) -> Tensor")
    library.define("hollow(Tensor x) -> Tensor")
    library.impl("swirl", lambda x, by: torch.from_numpy(x.numpy()[::-1] * by), "CPU")
    message = refusal(
        lambda x: torch.ops.hx_test_ops.swirl(x, 2.0), tmp_path / "m.onnx", hx.MissingConverters
    )
    assert "hx_test_ops::swirl" in message and f"{__file__}:" in message
    assert "hx packs new my-pack --target hx_test_ops::swirl" in message

    # Nobody wrote what it computes: PyTorch says so, and hx adds nothing.
    with pytest.raises(NotImplementedError, match="hx_test_ops::hollow"):
        hx.export(lambda x: torch.ops.hx_test_ops.hollow(x), torch.randn(2, 3), tmp_path / "m.onnx")

    @hx.converter("hx_test_ops::swirl", domain="com.acme")
    def swirl(op, x, by):
        return op("com.acme", "Swirl", x, by=by)

    packs = hx.Registry.installed()
    packs.add(swirl)
    message = refusal(
        lambda x: torch.ops.hx_test_ops.swirl(x, 2.0), tmp_path / "m.onnx", hx.VerificationError,
        packs=packs,
    )  # fmt: skip
    assert "Swirl" in message and "hx_reference_kernels" in message


def test_a_table_of_a_compiled_library_through_numpy_is_a_constant(tmp_path):
    """What a library computes from nothing is no result of the inputs, and comes by numpy's way."""
    (tmp_path / "hx_test_tables.py").write_text(
        textwrap.dedent(
            """
            import numpy, torch

            class Table(torch.nn.Module):
                def forward(self, x):
                    return x + torch.from_numpy(numpy.hanning(3).astype("float32"))
            """
        )
    )
    module = load("hx_test_tables", tmp_path / "hx_test_tables.py")
    try:
        assert hx.export(module.Table(), torch.randn(2, 3)).proof.ok
    finally:
        del sys.modules["hx_test_tables"]


THROUGH_NUMPY = """
import numpy
import torch

def _there(x):
    return x.numpy()

def swirl(x):
    return torch.from_numpy(numpy.cbrt(_there(x)))

class Spun(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(numpy.cbrt(_there(x)))

class Model(torch.nn.Module):
    def __init__(self, called):
        super().__init__()
        self.called = called
    def forward(self, x):
        return self.called(x) + 1
"""


@pytest.mark.parametrize("name", ["swirl", "Spun"])
def test_of_what_leaves_through_numpy_the_function_that_the_model_calls_is_named(tmp_path, name):
    (tmp_path / "models.py").write_text(THROUGH_NUMPY)
    module = load("hx_test_numpy_models", tmp_path / "models.py")
    try:
        called = module.swirl if name == "swirl" else module.Spun.apply
        with pytest.raises(hx.VerificationError) as caught:
            hx.export(module.Model(called), torch.randn(3))
        assert f"--target hx_test_numpy_models.{name}" in str(caught.value).splitlines()[-2]
    finally:
        del sys.modules["hx_test_numpy_models"]

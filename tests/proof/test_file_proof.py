"""A proof passes what is right and stops what is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
import torch
import torch.nn.functional as F
from onnx.reference.op_run import OpRun

from hx.errors import VerificationError
from hx.proof.declared import Unknown, evaluate
from hx.proof.differences import compare
from hx.proof.differences.compare import Tolerance, difference
from hx.proof.file_proof import Case, prove
from hx.proof.proof import inputs_of
from hx.proof.sessions.open_file import depth


def graph(text, opset=20, ir=9, extra=""):
    proto = onnx.parser.parse_model(
        f'<ir_version: {ir}, opset_import: ["" : {opset}{extra}]>\n{text}'
    )
    return proto.SerializeToString()


RELU = graph("g (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }")
X = torch.linspace(-2, 2, 6).reshape(2, 3)


def one(model, x, *expected, **options):
    return prove(model, [Case("recorded", {"x": x}, expected)], **options)


def test_a_right_graph(tmp_path):
    stages = []
    proof = one(RELU, X, X.relu(), progress=stages.append)
    assert proof.ok and proof.require() is proof
    compared = "comparing the file with the model, 1 of 1"
    assert stages == ["checking the file", "loading the file", compared]
    assert "verified on recorded inputs" in proof.summary() and "\n" not in proof.summary()
    (output,) = proof.cases[0].outputs
    assert (output.name, output.dtype, output.shape) == ("y", "float32", [2, 3])
    assert json.loads(json.dumps(proof.to_dict()))["ok"] is True
    (tmp_path / "m").write_bytes(RELU)
    assert one(tmp_path / "m", X, X.relu()).ok
    assert one(str(tmp_path / "m"), X.numpy(), X.relu().numpy()).ok


def test_a_wrong_value():
    proof = one(RELU, X, X.relu() + torch.eye(2, 3))
    assert not proof.ok and "not verified" in proof.summary() and "\n" not in proof.summary()
    (output,) = proof.cases[0].outputs
    assert output.worst == (0, 0) and output.got == 0.0 and output.want == 1.0
    assert output.max_abs == 1.0 and output.max_rel == pytest.approx(1 / 2.2)
    assert "at [0, 0]: 0.0, expected 1.0" in proof.explain()
    with pytest.raises(VerificationError, match="does not compute") as caught:
        proof.require()
    assert caught.value.proof is proof and caught.value.exit_code == 4


def test_dtype_and_shape_must_be_exact():
    assert "dtype is float32, expected float64" in one(RELU, X, X.relu().double()).explain()
    assert "shape is [2, 3], expected [1, 2, 3]" in one(RELU, X, X.relu()[None]).explain()
    told = one(RELU, X, X, X).explain()
    assert "has 1 outputs, the model 2" in told and "return one tensor of them" in told
    assert "inputs are ['x']" in prove(RELU, [Case("r", {"z": X}, [X])]).explain()
    assert "missing" in prove(RELU, [Case("r", {}, [X])]).explain()


def test_integers_and_bools_must_be_equal():
    model = graph("g (int64[n] x) => (int64[n] y, bool[n] z) { y = Neg(x) z = Equal(x, y) }")
    x = torch.arange(5)
    assert one(model, x, -x, x == 0).ok
    wrong = -x
    wrong[3] += 1
    proof = one(model, x, wrong, x == 0)
    assert "1 of 5 elements differ" in proof.explain()
    assert proof.cases[0].outputs[0].worst == (3,) and not proof.cases[0].outputs[1].problem
    assert not one(model, x, -x, x != 0).ok


def test_numbers_as_outputs():
    model = graph(
        """g (float[n] x) => (int64 size, float half) {
            s = Shape(x)  zero = Constant<value_int = 0>()  size = Gather(s, zero)
            half = Constant<value_float = 0.5>()
        }"""
    )
    assert one(model, torch.ones(7), 7, 0.5).ok
    assert not one(model, torch.ones(7), 8, 0.5).ok
    assert not one(model, torch.ones(7), 7, 1).ok


def test_nan_and_inf_must_stand_at_the_same_places():
    model = graph("g (float[n] x) => (float[n] y) { y = Log(x) }")
    x = torch.tensor([1.0, 0.0, -1.0, 2.0])
    assert one(model, x, x.log()).ok
    for place, value in ((2, 0.0), (0, float("nan")), (1, float("inf")), (1, -1e30)):
        want = x.log()
        want[place] = value
        proof = one(model, x, want)
        assert not proof.ok and proof.cases[0].outputs[0].worst == (place,)
    assert "1 NaN where 0 were expected" in one(model, x, x.log().nan_to_num(0)).explain()


@pytest.mark.parametrize(
    "name",
    ["float16", "bfloat16", "float64", "uint8", "int8", "int16", "uint16", "int32", "uint32",
     "uint64", "int64", "bool", "float8_e4m3fn"],
)  # fmt: skip
def test_every_dtype_crosses(name):
    dtype = getattr(torch, name)
    spelled = {"float64": "double", "float8_e4m3fn": "float8e4m3fn"}.get(name, name)
    model = graph(f"g ({spelled}[n] x) => ({spelled}[n] y) {{ y = Identity(x) }}", opset=21, ir=10)
    x = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    assert one(model, x, x).ok
    assert one(model, x[:0], x[:0]).ok
    assert not one(model, x, torch.tensor([0, 1, 1, 1, 1]).to(dtype)).ok


def test_numpys_stand_ins():
    model = graph("g (bfloat16[n] x) => (bfloat16[n] y) { y = Identity(x) }")
    x = np.array([1, 2.5, -3], dtype=ml_dtypes.bfloat16)
    assert one(model, x, x).ok
    assert not one(model, x, x * ml_dtypes.bfloat16(2)).ok


def test_declared_shapes_hold():
    wrong = graph("g (float[n, 3] x) => (float[n, 4] y) { y = Relu(x) }")
    assert not one(wrong, X, X.relu()).ok  # the checker sees it
    assert "declares 4" in one(wrong, X, X.relu(), checker=False).explain()
    turned = graph("g (float[a, b] x) => (float[a, b] y) { y = Transpose(x) }")
    proof = one(turned, X, X.t(), checker=False)
    assert (
        "the output has size 3 on axis 0, where the file declares 'a', which is 2"
        in proof.explain()
    )
    assert one(turned, torch.ones(3, 3), torch.ones(3, 3), checker=False).ok
    assert "declares 3" in one(RELU, torch.ones(2, 4), torch.ones(2, 4)).explain()
    free = graph("g (float[n, 3] x) => (float[m, k] y) { y = Relu(x) }")
    assert one(free, X, X.relu()).ok


def test_dimensions_that_are_expressions():
    model = onnx.load_from_string(RELU)
    dims = model.graph.output[0].type.tensor_type.shape.dim
    for text, right in (("2*n - n", True), ("(n + 1)//2 + 1", True), ("n + 1", False)):
        dims[0].dim_param = text
        assert one(model.SerializeToString(), X, X.relu(), checker=False).ok is right
    assert evaluate("max(a, 3) % 2 + floor(a/2)", {"a": 5}) == 3
    for text in ("b", "a +", "a ** 99", "__import__('os')", "a.b", "1/0"):
        with pytest.raises(Unknown):
            evaluate(text, {"a": 5})


def test_files_that_do_not_run(tmp_path):
    def told(model, **options):
        proof = one(model, X, X, **options)
        assert not proof.ok
        with pytest.raises(VerificationError, match="could not be verified"):
            proof.require()
        return proof.explain()

    assert "checker refuses" in told(graph("g (float[n] x) => (float[n] y) { y = Nope(x) }"))
    assert "checker refuses" in told(b"no model at all")
    (tmp_path / "empty.onnx").write_bytes(b"")
    assert "empty" in told(tmp_path / "empty.onnx")
    assert "No such file" in told(tmp_path / "missing.onnx")
    newest = onnx.load_from_string(RELU)
    newest.ir_version = 99
    assert "IR version" in told(newest.SerializeToString(), checker=False)


def test_a_missing_kernel_is_quoted_with_its_node():
    model = onnx.load_from_string(
        graph("g (complex64[n] x) => (complex64[n] y) { y = Identity(x) }")
    )
    assert "complex64" in one(model.SerializeToString(), torch.ones(2), torch.ones(2)).explain()
    model = onnx.load_from_string(
        graph(
            "g (int16[n] x) => (int16[n] y) { y = Neg(Abs(x)) }".replace(
                "Neg(Abs(x))", 'BitShift<direction="LEFT">(x, x)'
            ).replace("int16", "uint16")
        )
    )
    model.graph.node[0].name = "block/shift"
    entry = model.graph.node[0].metadata_props.add()
    entry.key, entry.value = "line", "model.py:7"
    x = torch.ones(3, dtype=torch.uint16)
    told = one(model.SerializeToString(), x, x).explain()
    assert "no kernel" in told and "block/shift" in told and "model.py:7" in told


def test_failures_at_run_time():
    model = graph(
        """g (float[n, 3] x) => (float[a, b] y) {
            s = Constant<value_ints = [4, 4]>()  y = Reshape(x, s) }"""
    )
    proof = one(model, X, X)
    assert not proof.ok and "Reshape" in proof.explain()


def test_no_cases_prove_nothing():
    proof = prove(RELU, [])
    assert not proof.ok and "no cases" in proof.summary()


def test_each_case_is_told():
    proof = prove(RELU, [Case("recorded", {"x": X}, [X.relu()]), Case("fresh", {"x": X}, [X])])
    assert "recorded inputs: right" in proof.explain() and "fresh inputs: wrong" in proof.explain()


def test_custom_operators_with_a_python_kernel():
    class Twice(OpRun):
        op_domain = "mine"

        def _run(self, x):
            return (2 * x,)

    model = graph(
        "g (float[n, 3] x) => (float[n, 3] y) { y = mine.Twice(x) }", extra=', "mine" : 1'
    )
    assert "mine" in one(model, X, 2 * X).explain()
    proof = one(model, X, 2 * X, custom_ops=[Twice])
    assert proof.ok and "reference" in proof.runtime
    assert not one(model, X, 3 * X, custom_ops=[Twice]).ok


def test_depth():
    text = """g (float[n] x) => (float[n] y) {
        a = Relu(x) b = Relu(a) c = Relu(x) d = Add(b, c) y = mine.two(d) }
        <domain: "mine", opset_import: ["" : 20]> two (v) => (o) { w = Relu(v) o = Relu(w) }"""
    assert depth(onnx.load_from_string(graph(text, extra=', "mine" : 1'))) == 5


# How close is close enough.


def deep(dtype, seed=0, layers=30):
    """A network of the usual kind, in any precision."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 64, generator=rng).to(dtype)
    for _ in range(layers):
        w = (torch.randn(64, 64, generator=rng) / 8).to(dtype)
        x = F.layer_norm(x + F.gelu(x @ w), [64])
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rounding_passes(dtype):
    """What a dtype computes is near what double precision does with the same weights."""
    tolerance = Tolerance.for_dtype(dtype, depth=120)
    for seed in range(5):
        rng = torch.Generator().manual_seed(seed)
        x = torch.randn(8, 64, generator=rng).to(dtype)
        exact = x.double()
        for _ in range(30):
            w = (torch.randn(64, 64, generator=rng) / 8).to(dtype)
            x = F.layer_norm(x + F.gelu(x @ w), [64])
            exact = F.layer_norm(exact + F.gelu(exact @ w.double()), [64])
        found = difference(x, exact.to(dtype), tolerance)
        assert not found.problem and found.max_rel < found.allowed / 2


@pytest.mark.parametrize(
    "fault",
    [
        lambda x: F.gelu(x, approximate="tanh") - F.gelu(x),
        lambda x: F.layer_norm(x, [64], eps=1e-3) - F.layer_norm(x, [64]),
        lambda x: x * 1e-4,
        lambda x: F.one_hot(torch.tensor(5), 64) * 1e-2,
        lambda x: x.flip(0) - x,
    ],
    ids=["gelu", "epsilon", "scale", "one element", "order"],
)
def test_faults_do_not(fault):
    want = deep(torch.float32)
    tolerance = Tolerance.for_dtype(torch.float32, depth=120)
    assert difference(want + fault(want), want, tolerance).problem


def test_a_small_fault_everywhere_shows_beside_one_huge_value():
    want = torch.randn(1000, 100)
    want[3, 5] = 30.0
    tolerance = Tolerance.for_dtype(torch.float32, depth=100)
    found = difference(want * 1.00001, want, tolerance)
    assert found.problem == "the errors are small but everywhere"


def test_saturation_is_no_fault():
    model = graph("g (float[n] x) => (float[n] y) { y = Sigmoid(x) }")
    x = -torch.rand(1000) * 10 - 15
    assert one(model, x, x.sigmoid()).ok
    assert not one(model, x + 10, x.sigmoid()).ok


def test_nothing_heavy_is_imported_early():
    code = "import sys, hx.saving.save, hx.proof.file_proof; print([m for m in sys.modules if m in %r])"
    heavy = ["torch", "onnx", "onnx_ir", "onnxruntime", "numpy"]
    env = {**os.environ, "PYTHONPATH": str(Path(compare.__file__).parents[2])}
    out = subprocess.run(
        [sys.executable, "-c", code % heavy], capture_output=True, text=True, env=env, check=True
    )
    assert out.stdout.strip() == "[]"


def test_noise_gives_room():
    got, want = torch.tensor([1.0, 2.001]), torch.tensor([1.0, 2.0])
    assert difference(got, want, Tolerance.for_dtype(torch.float32)).problem
    assert not difference(got, want, Tolerance.for_dtype(torch.float32, noise=1e-3)).problem
    case = Case("r", {"x": X}, [X.relu() * 1.001], noise=[1e-3])
    assert prove(RELU, [case]).ok
    assert not one(RELU, X, X.relu() * 1.001).ok


def test_comparison_corners():
    tolerance = Tolerance.for_dtype(torch.float32)
    zeros = torch.zeros(3)
    assert not difference(zeros, zeros, tolerance).problem
    assert difference(zeros + 1e-3, zeros, tolerance).problem
    nan = torch.full((3,), float("nan"))
    assert not difference(nan, nan.clone(), tolerance).problem
    assert difference(zeros, nan, tolerance).problem
    complexes = torch.complex(torch.ones(4), torch.arange(4.0))
    loose = Tolerance.for_dtype(torch.complex64)
    assert not difference(complexes, complexes.clone(), loose).problem
    moved = complexes.clone()
    moved[2] += 1j
    assert difference(moved, complexes, loose).worst == (2,)
    large = torch.randn(3, 3 << 20)
    other = large.clone()
    other[2, 7] += 1
    assert difference(other, large, tolerance).worst == (2, 7)


def test_many_cases_are_told_by_their_kinds():
    few = ["recorded", "fresh", "fresh 2", "b=2, h=18"]
    assert inputs_of(few) == "recorded, fresh, fresh 2, b=2 h=18 inputs"
    many = [*few, "way 2", "n=7, way 2", "n=7", "fresh at n=7", "opposite way 3"]
    assert inputs_of(many) == (
        "9 input sets (recorded, fresh, b=2 h=18, n=7, opposite; along 3 ways through the model)"
    )

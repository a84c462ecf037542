"""A proof passes what is right and stops what is wrong; new inputs keep what old ones had."""

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

import hx
from hx.errors import VerificationError
from hx.proof import compare
from hx.proof.compare import Tolerance, difference
from hx.proof.declared import Unknown, evaluate
from hx.proof.variations import ending
from hx.proof.verify import Case, depth, fresh, jitter, prove, resized


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
    assert stages == ["checking", "loading", "recorded"]
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
    assert "has 1 outputs, the model 2" in one(RELU, X, X, X).explain()
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
    assert "the output has size 3 on axis 0, and declares 'a', which is 2" in proof.explain()
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
    code = "import sys, hx.saving.save, hx.proof.verify; print([m for m in sys.modules if m in %r])"
    heavy = ["torch", "onnx", "onnx_ir", "onnxruntime", "numpy"]
    env = {**os.environ, "PYTHONPATH": str(Path(compare.__file__).parents[1])}
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
    assert one(RELU, X, X.relu() * 1.001, tolerance=1e-2).ok
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


# New inputs.


def test_fresh_is_seeded_and_leaves_the_world_alone():
    x = torch.randn(4, 5)
    state = torch.get_rng_state()
    a, b, c = fresh([x], seed=1), fresh([x], seed=1), fresh([x], seed=2)
    assert torch.equal(a[0], b[0]) and not torch.equal(a[0], c[0]) and not torch.equal(a[0], x)
    assert torch.equal(torch.get_rng_state(), state)
    same = fresh([x, x, x.clone(), 3, None])
    assert same[0] is same[1] and not torch.equal(same[0], same[2]) and same[3:] == [3, None]
    assert set(fresh({"a": x, "b": 1})) == {"a", "b"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_fresh_floats_are_distributed_as_the_old(dtype):
    old = (torch.randn(50, 60) * 3 + 5).to(dtype)
    (new,) = fresh([old])
    assert new.dtype == dtype and new.shape == old.shape
    assert abs(new.double().mean() - 5) < 0.3 and abs(new.double().std() - 3) < 0.3
    assert new.min() >= old.min() and new.max() <= old.max()
    assert (fresh([torch.rand(9, 9).to(dtype)])[0] >= 0).all()
    assert (fresh([-torch.rand(9, 9).to(dtype)])[0] <= 0).all()


def test_fresh_tensors_of_one_value():
    zeros, ones, image = torch.zeros(2, 6), torch.ones(2, 6), torch.ones(1, 3, 8, 8)
    new = fresh([zeros, ones, image, torch.full((2, 3, 4), -7.0), torch.tensor(0.5)])
    assert new[0].std() > 0.5, "zeros for want of anything better say nothing of the range"
    assert set(new[1].unique().tolist()) <= {0.0, 1.0} and (new[1][:, 0] == 1).all(), "a mask"
    assert (new[2] > 0).all() and (new[2] <= 1).all() and new[2].std() > 0
    assert (new[3] < 0).all() and (new[3] >= -7).all() and 0 < new[4] <= 0.5
    assert torch.equal(fresh({"attention_mask": zeros})["attention_mask"], zeros)


def test_fresh_inputs_lie_in_memory_as_the_recorded_ones_do():
    """Of a transposed input `contiguous` is a copy: what is written to that is not in the input."""

    def f(x):
        y = x.contiguous()
        y[0] = 1
        return x, y

    assert hx.export(f, torch.randn(4, 2).mT).proof.ok
    last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert fresh([last])[0].stride() == last.stride()
    assert resized(last, {2: 7}).is_contiguous(memory_format=torch.channels_last)


def test_fresh_masks_stay_masks():
    bools = torch.ones(9, 12, dtype=torch.bool)
    for old in (bools, ~bools, bools.tril(), torch.rand(9, 12) > 0.5, bools[:, :2]):
        (new,) = fresh([old])
        assert new.dtype == torch.bool and new.any(-1).all()
        if old is not bools.tril():
            assert not torch.equal(new, old)
    assert (fresh([bools])[0][:, 0]).all(), "seen under a causal mask too"
    padded = (torch.arange(12) < torch.tensor([[12], [5], [7]])).long()
    (new,) = fresh([padded])
    assert set(new.unique().tolist()) == {0, 1} and (new.diff(dim=-1) <= 0).all()
    (left,) = fresh([padded.flip(-1)])
    assert (left.diff(dim=-1) >= 0).all() and (left[:, -1] == 1).all()
    hides = (torch.arange(12) >= torch.tensor([[12], [5], [7]])).repeat(5, 1)
    (new,) = fresh([hides])
    assert (new.diff(dim=-1) >= 0).all() and not new[:, 0].any(), "something is left to see"
    hidden = fresh({"attention_mask": torch.ones(4, 12, dtype=torch.int64)})["attention_mask"]
    assert set(hidden.unique().tolist()) == {0, 1} and (hidden[:, 0] == 1).all()
    added = torch.zeros(6, 6).masked_fill(~bools[:6, :6].tril(), float("-inf"))
    (new,) = fresh([added])
    assert set(new.unique().tolist()) == {0.0, float("-inf")} and (new == 0).any(-1).all()


def test_fresh_integers_stay_in_range():
    tokens = torch.randint(5, 900, (3, 40))
    (new,) = fresh([tokens])
    assert new.min() >= tokens.min() and new.max() <= tokens.max()
    assert not torch.equal(new, tokens)
    for same in (torch.zeros(3, 4, dtype=torch.int64), torch.tensor(5), torch.tensor([7, 7, 7]),
                 torch.arange(12)[None], torch.arange(3, 9)):  # fmt: skip
        assert torch.equal(fresh([same])[0], same)
    ordered = torch.tensor([0, 3, 3, 8, 20])
    (new,) = fresh([ordered])
    assert (new.diff() >= 0).all() and new.max() <= 20
    shuffled = torch.randperm(30)
    (new,) = fresh([shuffled])
    assert torch.equal(new.sort().values, torch.arange(30)) and not torch.equal(new, shuffled)
    (wide,) = fresh([torch.zeros(3, 40, dtype=torch.int64)], bounds={0: (0, 99)})
    assert 50 < wide.max() <= 99
    assert fresh([torch.tensor([1, 200, 30], dtype=torch.uint8)])[0].dtype == torch.uint8


def test_fresh_cells_stay_different_near_and_in_the_range_of_each_column():
    space = torch.tensor([2, 40, 30, 20])
    cells = (torch.rand(500, 4) * space).int().unique(dim=0)
    shuffled = cells[torch.randperm(len(cells))]
    low, high = cells.min(0).values, cells.max(0).values
    for old, count in (
        (shuffled, None),
        (shuffled, 900),
        (shuffled, 30),
        (cells, None),
        (cells, 7),
    ):
        (new,) = fresh([old]) if count is None else [resized(old, {0: count})]
        assert new.shape == (count or len(old), 4) and new.dtype == old.dtype
        assert len(new.unique(dim=0)) == len(new) and not torch.equal(new, old)
        assert (new >= low).all() and (new <= high).all()
        beside = (new[:, None] - old[None]).abs().amax(-1).amin(-1) <= 1
        assert beside.float().mean() > 0.8, "points that had neighbours have some"
        in_order = torch.equal(new, new.unique(dim=0))
        assert in_order == torch.equal(old, old.unique(dim=0))
    full = torch.cartesian_prod(torch.arange(3), torch.arange(4))
    assert len(fresh([full])[0].unique(dim=0)) == 12
    assert list(resized(full, {0: 20}).shape) == [20, 2]  # there is no room: some come twice


def test_fresh_boxes_stay_boxes():
    corner = torch.rand(20, 2) * 50
    boxes = torch.cat([torch.zeros(20, 1), corner, corner + torch.rand(20, 2) * 30], 1)
    (new,) = fresh([boxes])
    assert (new[:, 0] == 0).all() and (new[:, 3:] >= new[:, 1:3]).all()
    assert not torch.equal(new[:, 1:], boxes[:, 1:])


@pytest.mark.parametrize("shape", [(16, 2), (16, 3), (16, 6), (16, 12), (2, 6), (5, 4, 2), (7,)])
@pytest.mark.parametrize("whole", [False, True])
def test_rows_that_are_sorted_stay_so(shape, whole):
    """Bins, quantiles, depths along a ray: what is searched in, and undefined where it is not."""
    old = (torch.rand(shape) * 1000).sort(-1).values
    old = old.long() if whole else old
    last = len(shape) - 1
    for seed in range(3):
        (new,) = fresh([old], seed=seed)
        assert not torch.equal(new, old)
        for each in (new, *(resized(old, {axis: 18}, seed) for axis in (0, last))):
            assert each.dtype == old.dtype and bool((each.diff(dim=-1) >= 0).all())


def test_columns_of_sorted_rows_keep_their_ranges():
    old = torch.tensor([1.0, 3.0, 10.0, 99.0]) + torch.rand(16, 4).sort(-1).values
    (new,) = fresh([old])
    assert (new.amax(0) <= old.amax(0)).all() and (new.amin(0) >= old.amin(0)).all()


def test_rows_that_are_not_sorted_do_not_become_so():
    assert bool((fresh([torch.rand(16, 3)])[0].diff(dim=-1) < 0).any())
    assert bool((resized(torch.rand(16, 3), {1: 6}).diff(dim=-1) < 0).any())


def test_fresh_odd_tensors():
    for old in (torch.empty(0, 3), torch.randn(3, dtype=torch.complex64), torch.eye(3).to_sparse(),
                torch.randn(2, 3).to(torch.float8_e4m3fn), torch.randn(3, 4).t(),
                torch.tensor([1.0, float("nan"), 3.0, 5.0])):  # fmt: skip
        (new,) = fresh([old])
        assert new.shape == old.shape and new.dtype == old.dtype


def test_where_parts_begin_stays_so_in_fresh_inputs():
    """Offsets of sequences one behind the other: they begin at 0, and end where the last one does."""
    starts = torch.tensor([0, 3, 7, 10], dtype=torch.int32)
    for seed in range(20):
        new = fresh([starts], seed=seed)[0]
        assert new[0] == 0 and new[-1] == 10 and bool((new.diff() >= 0).all())
    assert any(not torch.equal(fresh([starts], seed=n)[0], starts) for n in range(3))


def test_rows_in_which_parts_begin_keep_to_their_own_ends():
    starts = torch.tensor([[0, 1, 5, 6], [0, 2, 2, 2], [0, 4, 40, 90]])
    for seed in range(20):
        for new in (fresh([starts], seed=seed)[0], resized(starts, {1: 9}, seed=seed)):
            assert bool((new.diff(dim=-1) >= 0).all()) and bool((new[:, 0] == 0).all())
            assert torch.equal(new[:, -1], starts[:, -1])


@pytest.mark.parametrize("count", [2, 3, 5, 9])
@pytest.mark.parametrize("size", [1, 4, 13, 29])
def test_parts_of_a_whole_end_where_it_does(size, count):
    starts = torch.tensor([0, 3, 3, 7, 13], dtype=torch.int32)
    new = ending(resized(starts, {0: count}), starts, {13: size})
    assert new.dtype == torch.int32 and new[0] == 0 and new[-1] == size
    assert len(new) == count and bool((new.diff() >= 0).all())
    assert new is not starts


def test_other_numbers_do_not_end_with_a_size():
    for old in ([0, 3, 7], [1, 3, 13], [0, 13, 4], [13], [0.0, 13.0], []):
        old = torch.tensor(old)
        assert ending(old, old, {13: 4}) is old
    assert (
        ending(torch.zeros(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64), {0: 2}).max()
        == 0
    )


def test_resized():
    x = torch.randn(2, 3, 8)
    for sizes in ({0: 1}, {0: 5}, {0: 3, 2: 13}, {1: 0}, {}):
        want = [sizes.get(i, n) for i, n in enumerate(x.shape)]
        new = resized(x, sizes)
        assert list(new.shape) == want and new.dtype == x.dtype
        assert new.numel() == 0 or new.abs().max() <= x.abs().max()
    assert list(resized(torch.empty(0, 3), {0: 2}).shape) == [2, 3]
    positions = torch.arange(6)[None].expand(2, -1)
    assert torch.equal(resized(positions, {1: 9, 0: 1}), torch.arange(9)[None])
    assert torch.equal(resized(positions, {1: 4}), torch.arange(4)[None].expand(2, -1))
    tokens = torch.randint(0, 50, (1, 7))
    assert list(resized(tokens, {0: 3, 1: 1}).shape) == [3, 1]
    mask = torch.ones(2, 5, dtype=torch.int64)
    assert (resized(mask, {1: 9}) == 1).all() and (
        resized(mask, {1: 9}, mask=True)[:, 0] == 1
    ).all()


def test_jitter_moves_floats_by_one_step():
    x, ids = torch.randn(100), torch.arange(5)
    moved, same, number = jitter([x, ids, 3])
    assert same is ids and number == 3 and not torch.equal(moved, x)
    assert ((moved - x).abs() <= 2.5e-7 * x.abs()).all()


def test_inputs_of_one_shape_are_not_alike_at_any_size():
    """What is the same twice hides what a graph has exchanged."""
    seen = []

    def distance(q, k):
        seen.append((q.detach().clone(), k.detach().clone()))
        return (q - k).abs().sum(-1)

    axes = {0: "b", 1: "n"}
    shapes = torch.randn(3, 16, 4), torch.randn(3, 16, 4)
    assert hx.export(distance, shapes, dynamic={"q": axes, "k": axes}).proof.ok
    assert len({q.shape for q, _ in seen}) > 3
    for q, k in seen:
        together = torch.corrcoef(torch.stack([q.flatten(), k.flatten()]))[0, 1]
        assert together.abs() < 0.75, list(q.shape)

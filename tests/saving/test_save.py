"""What a save writes: every kind of tensor, the same bytes each time, little memory."""

import textwrap

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from models_on_disk import chain, check, names, run, square, value_of
from onnx import numpy_helper

from hx.errors import UsageError
from hx.saving import model_file, save
from hx.saving.weights import TorchTensor


@pytest.mark.parametrize("external", [False, True])
def test_a_model_goes_to_disk_and_back(tmp_path, external):
    model = square()
    saved = save.save(model, tmp_path / "m.onnx", external)
    check(tmp_path / "m.onnx", model)
    assert saved.path == tmp_path / "m.onnx"
    assert saved.size == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert (saved.data_path is not None) == external == (len(names(tmp_path)) == 2)
    session = ort.InferenceSession(tmp_path / "m.onnx")
    x = np.random.randn(2, 64).astype(np.float32)
    want = x
    for value in model.graph.initializers.values():
        want = want @ value.const_value.numpy()
    np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("external", [False, True])
def test_every_kind_of_tensor(tmp_path, external):
    base = torch.randn(40, 50)
    tensors = {
        "bool": base > 0,
        "half": base.half(),
        "bf16": base.bfloat16(),
        "f8": base.to(torch.float8_e4m3fn),
        "double": base.double(),
        "int8": (base * 10).to(torch.int8),
        "u16": (base * 10).abs().to(torch.uint16),
        "complex": torch.complex(base, base),
        "conj": torch.complex(base, base).conj(),
        "transposed": base.t(),
        "strided": base[::2, ::3],
        "expanded": base[:1].expand(7, 50),
        "sparse": (base * (base > 1)).to_sparse(),
        "scalar": torch.tensor(3),
        "empty": torch.empty(0, 3),
        "numpy": ir.tensor(np.arange(700, dtype=np.int64)),
        "int4": ir.tensor(np.arange(-8, 8, dtype=np.int8), dtype=ir.DataType.INT4),
        "words": ir.StringTensor(np.array([b"a", b"bc"]), shape=ir.Shape([2])),
        "proto": ir.serde.deserialize_tensor(numpy_helper.from_array(np.ones((30, 30)), "q")),
        "lazy": ir.LazyTensor(
            lambda: ir.tensor(np.ones(999, np.float32)),
            dtype=ir.DataType.FLOAT,
            shape=ir.Shape([999]),
        ),
    }
    model = square(count=1)
    for name, tensor in tensors.items():
        model.graph.register_initializer(value_of(tensor, name))
    save.save(model, tmp_path / "m.onnx", external)
    loaded = {t.name: t for t in onnx.load(tmp_path / "m.onnx").graph.initializer}
    for name, value in model.graph.initializers.items():
        array = numpy_helper.to_array(loaded[name])
        if name == "words":
            assert [bytes(w, "ascii") if isinstance(w, str) else w for w in array] == [b"a", b"bc"]
        elif name == "int4":
            assert array.astype(int).tolist() == list(range(-8, 8))
        else:
            assert array.shape == value.const_value.shape.numpy(), name
            assert array.tobytes() == value.const_value.numpy().tobytes(), name


def test_functions_subgraphs_and_metadata_survive(tmp_path):
    source = """
        <ir_version: 9, opset_import: ["" : 20, "mine" : 1], metadata_props: ["a": "b"]>
        agraph (float[n, 4] x, bool c) => (float[n, 4] y)
        <float[4, 4] w = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}> {
            h = MatMul(x, w)
            z = mine.twice(h)
            y = If (c) <
                then_branch = a () => (float[n, 4] s) <float[4] b = {1,2,3,4}> { s = Add(z, b) },
                else_branch = e () => (float[n, 4] t) { t = Identity(z) }>
        }
        <domain: "mine", opset_import: ["" : 20]> twice (v) => (o) { o = Add(v, v) }
    """
    proto = onnx.parser.parse_model(textwrap.dedent(source))
    model = ir.from_proto(proto)
    model.graph[0].metadata_props["hx.line"] = "model.py:3"
    model.graph.initializers["w"].const_value = TorchTensor(torch.eye(4))
    for external in (False, True):
        path = tmp_path / f"m{external}.onnx"
        save.save(model, path, external)
        onnx.checker.check_model(str(path), full_check=True)
        loaded = onnx.load(path)
        plain = ir.to_proto(model)
        said = [v for v in plain.graph.value_info if v.name == "w"]  # its tensor says it too
        plain.graph.value_info.remove(*said)
        assert loaded == plain
        x = np.ones((2, 4), np.float32)
        got = ort.InferenceSession(path).run(None, {"x": x, "c": np.array(True)})[0]
        np.testing.assert_array_equal(got, 2 * x + [1, 2, 3, 4])


def test_the_model_is_left_as_it_was(tmp_path):
    model = square()
    before = {
        n: (v, v.const_value, v.const_value.name) for n, v in model.graph.initializers.items()
    }
    text = ir.to_proto(model)
    for external in (False, True):
        save.save(model, tmp_path / "m.onnx", external)
    after = {n: (v, v.const_value, v.const_value.name) for n, v in model.graph.initializers.items()}
    assert all(a is b for n in before for a, b in zip(before[n][:2], after[n][:2]))
    assert ir.to_proto(model) == text


@pytest.mark.parametrize("external", [False, True])
def test_same_in_same_out(tmp_path, external):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        save.save(square(), tmp_path / folder / "m.onnx", external)
    assert names(tmp_path / "a") == names(tmp_path / "b")
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_file_is_one_plain_message(tmp_path):
    """Readers that cannot merge pieces of a message can read it too; the size is foretold."""
    model = square()
    save.save(model, tmp_path / "m.onnx")
    data = (tmp_path / "m.onnx").read_bytes()
    tags = [tag for tag, *_ in model_file._fields(memoryview(data))]
    assert tags.count(model_file.GRAPH) == 1
    assert model_file.inline_size(save.parts_of(model)) == len(data)


def test_layout_of_the_data_file(tmp_path):
    small, large = torch.randn(10, 64), torch.randn(64, 1024)
    model = chain(small, large)
    model.graph.register_initializer(value_of(torch.arange(3), "shape"))
    model.graph.register_initializer(value_of(large, "tied"))
    model.graph.register_initializer(value_of(large.t(), "transposed"))
    saved = save.save(model, tmp_path / "m.onnx", external=True)
    check(tmp_path / "m.onnx", model)
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    where = {t.name: {e.key: e.value for e in t.external_data} for t in proto.graph.initializer}
    assert where["shape"] == {}, "small tensors stay where shape inference sees them"
    assert where["layer1.weight"] == where["tied"] != where["transposed"]
    assert int(where["layer0.weight"]["offset"]) % 64 == 0
    assert int(where["layer1.weight"]["offset"]) % 4096 == 0
    assert saved.data_path.stat().st_size < 3 * large.nbytes


@pytest.mark.parametrize("external", [False, True])
def test_memory_is_not_spent_on_weights(tmp_path, external):
    code = """
        from hx.bench.memory import peak
        model = chain(*(torch.ones(5000, 5000) for _ in range(3)))
        model.graph.register_initializer(value_of(torch.ones(3000, 3000).t(), "transposed"))
        save.save(square(), sys.argv[1] + ".first")
        print(peak(lambda: save.save(model, sys.argv[1], sys.argv[2] == "True")))
    """
    out = run(code, tmp_path / "m.onnx", external).communicate()[0]
    assert (tmp_path / "m.onnx").exists() and int(out) < 50 << 20, (
        f"{out} bytes for 336 MB of weights"
    )


def test_large_models_go_external(tmp_path):
    """Gigabytes that take 4 bytes of memory."""
    zero = torch.zeros(1)
    with pytest.raises(UsageError, match=r"2\.4 GB"):
        save.save(chain(zero.expand(600_000, 1000)), tmp_path / "m.onnx", external=False)
    assert names(tmp_path) == []
    saved = save.save(chain(zero.expand(400_000, 1000)), tmp_path / "m.onnx")
    assert saved.size > 1_600_000_000 and saved.data_path.exists()
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    saved.data_path.unlink()


def test_a_skeleton_is_the_model_without_its_weights(tmp_path):
    model = square()
    for external in (False, True):
        save.save(model, tmp_path / "m.onnx", external)
        want = onnx.load(tmp_path / "m.onnx", load_external_data=False)
        del want.graph.initializer[:]
        assert model_file.skeleton(tmp_path / "m.onnx") == want
        assert model_file.skeleton((tmp_path / "m.onnx").read_bytes()) == want

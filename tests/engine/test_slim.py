"""Models without their weights: on the meta device with the weights in files, or cast on the way."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import save_file
from torch import nn

import hx
from hx import checkpoint, room
from hx.errors import ExportError, Unsupported, UsageError


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Language(nn.Module):
    """Tied embeddings, a table that no state_dict has, and weights above and below the limit."""

    def __init__(self, width: int = 160, words: int = 500, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        steps = torch.arange(0, width, 2, device="cpu") / width
        self.register_buffer("frequencies", 1 / 10000**steps, persistent=False)

    def forward(self, ids):
        x = self.embed(ids)
        angles = torch.arange(ids.shape[1], device=x.device)[:, None] * self.frequencies
        x = x + torch.cat([angles.sin(), angles.cos()], -1).to(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


IDS = torch.tensor([[3, 1, 4, 1, 5, 9]])
AXES = {"ids": {0: "batch", 1: "length"}}


def on_meta(make):
    with torch.device("meta"):
        return make()


def own(model):
    """Its state_dict, each tensor once."""
    found = {}
    for name, tensor in model.state_dict().items():
        if all(tensor.data_ptr() != other.data_ptr() for other in found.values()):
            found[name] = tensor
    return found


def stored(path):
    model = onnx.load(path)
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


@pytest.fixture
def real():
    return Language().eval()


@pytest.fixture
def file(real, tmp_path):
    save_file(own(real), tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


@pytest.fixture
def folder(real, tmp_path):
    """Three shards with an index, as transformers writes them."""
    place = tmp_path / "checkpoint"
    place.mkdir()
    tensors, where = own(real), {}
    for number in range(3):
        name = f"model-{number + 1:05}-of-00003.safetensors"
        shard = dict(list(tensors.items())[number::3])
        save_file(shard, place / name)
        where.update(dict.fromkeys(shard, name))
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return place


@pytest.mark.parametrize("given", ["file", "folder", "index", "no index"])
def test_weights_are_streamed_from_files(given, real, file, folder, tmp_path):
    index = folder / "model.safetensors.index.json"
    places = {"file": file, "folder": folder, "index": index, "no index": folder}
    if given == "no index":
        index.unlink()
    model = on_meta(Language)
    program = hx.export(model, (IDS,), tmp_path / "m.onnx", dynamic=AXES, weights=places[given])
    assert program.proof.ok
    names = [check.name for check in program.proof.cases]
    assert "recorded" in names and "fresh" in names and len(names) > 3
    found = stored(tmp_path / "m.onnx")
    for name, tensor in own(real).items():
        np.testing.assert_array_equal(found[name], tensor.numpy())
    ids = torch.tensor([[7, 0, 2]])
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (got,) = session.run(None, {"ids": ids.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(got), real(ids), rtol=1e-4, atol=1e-4)


def test_the_graph_is_that_of_the_model_with_its_weights(real, file, tmp_path):
    hx.export(real, (IDS,), tmp_path / "real.onnx", dynamic=AXES, verify=False)
    model = on_meta(Language)
    hx.export(model, (IDS,), tmp_path / "meta.onnx", dynamic=AXES, verify=False, weights=file)
    here, there = (onnx.load(tmp_path / name).graph for name in ("real.onnx", "meta.onnx"))
    # What is in memory is stored transposed where that is all that a graph would do with it.
    turned = {f"{weight.name}.transposed" for weight in there.initializer}
    turned &= {weight.name for weight in here.initializer}
    ops = [node.op_type for node in there.node if f"{node.input[0]}.transposed" not in turned]
    assert turned and ops == [node.op_type for node in here.node]


def test_the_users_model_stays_on_meta(file, tmp_path):
    model = on_meta(Language)
    before = {name: (tensor, vars(tensor).copy()) for name, tensor in model.named_parameters()}
    hx.export(model, (IDS,), tmp_path / "m.onnx", weights=file)
    after = dict(model.named_parameters())
    assert all(after[name] is tensor and tensor.is_meta for name, (tensor, _) in before.items())
    assert model.head.weight is model.embed.weight
    assert model.training


@pytest.mark.parametrize("external", [False, True])
def test_tied_weights_are_stored_once(external, file, tmp_path):
    model = on_meta(Language)
    path = tmp_path / "m.onnx"
    program = hx.export(model, (IDS,), path, weights=file, external_data=external)
    assert program.report.size < 1.1 * file.stat().st_size
    found = stored(path)
    assert "embed.weight" in found and "head.weight" not in found


def test_twins_that_are_two_parameters_are_stored_once_too(real, file, tmp_path):
    class Twins(Language):
        def __init__(self):
            super().__init__()
            self.head.weight = nn.Parameter(self.embed.weight.detach())

    path = tmp_path / "m.onnx"
    program = hx.export(on_meta(Twins), (IDS,), path, weights=file, external_data=True)
    assert program.proof.ok
    assert program.report.size < 1.1 * file.stat().st_size


def test_what_does_not_fit_is_told_by_name(real, tmp_path):
    tensors = own(real)
    del tensors["blocks.0.up.bias"]
    tensors["blocks.9.up.bias"] = torch.ones(3)
    tensors["blocks.1.up.bias"] = torch.ones(7)
    tensors["blocks.1.down.bias"] = tensors["blocks.1.down.bias"].half()
    save_file(tensors, tmp_path / "w.safetensors")
    with pytest.raises(UsageError) as raised:
        hx.export(
            on_meta(Language), (IDS,), tmp_path / "m.onnx", weights=tmp_path / "w.safetensors"
        )
    text = str(raised.value)
    assert "missing: blocks.0.up.bias" in text
    assert "unknown: blocks.9.up.bias" in text
    assert "blocks.1.up.bias is [7] in the file and [640] in the model" in text
    assert "blocks.1.down.bias is float16 in the file and float32 in the model" in text
    assert not (tmp_path / "m.onnx").exists()


def test_another_dtype_in_the_file_is_cast_when_a_dtype_is_asked_for(real, tmp_path):
    halves = {name: tensor.half() for name, tensor in own(real).items()}
    save_file(halves, tmp_path / "w.safetensors")
    model = on_meta(Language)
    path = tmp_path / "m.onnx"
    program = hx.export(model, (IDS,), path, weights=tmp_path / "w.safetensors", dtype="float32")
    assert program.proof.ok
    np.testing.assert_array_equal(
        stored(path)["embed.weight"], halves["embed.weight"].float().numpy()
    )


def test_without_weights_it_is_said_what_is_missing(tmp_path):
    with pytest.raises(UsageError, match="embed.weight") as raised:
        hx.export(on_meta(Language), (IDS,), tmp_path / "m.onnx")
    assert "weights=" in raised.value.hint


def test_a_table_that_no_file_has_is_told(file, tmp_path):
    class Lost(Language):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(500.0), persistent=False)

        def forward(self, ids):
            return super().forward(ids) + self.table

    with pytest.raises(UsageError, match=r"no contents: table\n"):
        hx.export(on_meta(Lost), (IDS,), tmp_path / "m.onnx", weights=file)


def test_a_file_may_have_a_buffer_that_a_state_dict_leaves_out(real, tmp_path):
    """Older checkpoints have the frequencies of rotary embeddings."""
    tensors = {**own(real), "frequencies": real.frequencies * 2}
    save_file(tensors, tmp_path / "w.safetensors")
    model = on_meta(Language)
    path = tmp_path / "m.onnx"
    assert hx.export(model, (IDS,), path, weights=tmp_path / "w.safetensors").proof.ok


def test_a_dry_run_needs_no_weights():
    report = hx.scan(on_meta(Language), (IDS,), dynamic=AXES)
    assert report.covered and report.converters["torch.nn.functional.linear"] == 5
    assert not report.escapes


def test_part_of_a_model_may_have_its_weights(real, tmp_path):
    model = Language().eval()
    model.blocks[1].up = on_meta(lambda: nn.Linear(160, 640))
    wanted = {n: t for n, t in own(real).items() if n.startswith("blocks.1.up.")}
    save_file(wanted, tmp_path / "w.safetensors")
    path = tmp_path / "m.onnx"
    program = hx.export(model, (IDS,), path, weights=tmp_path / "w.safetensors")
    assert program.proof.ok
    assert "not in the weights, and as the model has them: embed.weight" in program.report.notes[0]
    found = stored(path)
    np.testing.assert_array_equal(found["blocks.1.up.bias"], wanted["blocks.1.up.bias"].numpy())
    np.testing.assert_array_equal(found["embed.weight"], model.embed.weight.detach().numpy())


# Casts.


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", torch.float16])
def test_a_model_with_its_weights_is_cast_on_the_way(dtype, real, tmp_path):
    before = {name: tensor.clone() for name, tensor in real.state_dict().items()}
    path = tmp_path / "m.onnx"
    program = hx.export(real, (IDS,), path, dynamic=AXES, dtype=dtype)
    assert program.proof.ok
    name = str(dtype).removeprefix("torch.")
    assert program.report.outputs[0]["dtype"] == name
    for key, tensor in real.state_dict().items():
        assert torch.equal(tensor, before[key]) and tensor.dtype == torch.float32
    wanted = before["blocks.0.up.weight"].to(getattr(torch, name)).t().contiguous()
    stored = {t.name: t.raw_data for t in onnx.load(path).graph.initializer}
    assert stored["blocks.0.up.weight.transposed"] == wanted.view(torch.uint8).numpy().tobytes()


def test_inputs_are_cast_too_and_integers_are_not(tmp_path):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(200, 200)
            self.register_buffer("counts", torch.arange(200))

        def forward(self, x, at):
            return self.linear(x) + at, self.counts + at

    model = Both().eval()
    program = hx.export(
        model, (torch.randn(2, 200), torch.tensor(3)), tmp_path / "m.onnx", dtype="float16"
    )
    assert program.proof.ok
    assert [each["dtype"] for each in program.report.inputs] == ["float16", "int64"]
    assert [each["dtype"] for each in program.report.outputs] == ["float16", "int64"]


def test_a_dtype_that_is_none_is_refused(real, tmp_path):
    with pytest.raises(UsageError, match="float16, bfloat16"):
        hx.export(real, (IDS,), tmp_path / "m.onnx", dtype="int8")


def test_recurrent_layers_keep_their_weights_in_a_list(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTM(160, 160, batch_first=True)

        def forward(self, x):
            return self.cell(x)[0]

    model = Net().eval()
    flat = list(model.cell._flat_weights)
    x = torch.randn(2, 5, 160)
    assert hx.export(model, (x,), tmp_path / "h.onnx", dtype="float16").proof.ok
    assert all(a is b for a, b in zip(model.cell._flat_weights, flat))
    save_file(own(model), tmp_path / "w.safetensors")
    assert hx.export(
        on_meta(Net), (x,), tmp_path / "m.onnx", weights=tmp_path / "w.safetensors"
    ).proof.ok


# What can be known without weights, and what cannot.


class Large(nn.Module):
    """One weight that is not there while the model is recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(200, 200) / 14)


def export(cls, tmp_path, *inputs, **options):
    """Exported from the meta device; also what the real model says of the same inputs."""
    torch.manual_seed(1)
    real = cls().eval()
    save_file(own(real), tmp_path / "w.safetensors")
    model = on_meta(cls)
    return hx.export(
        model, inputs, tmp_path / "m.onnx", weights=tmp_path / "w.safetensors", **options
    )


def test_what_inputs_say_is_known(tmp_path):
    class Masked(Large):
        def forward(self, x, mask):
            if mask.all():
                return x @ self.weight
            return x

    x, mask = torch.randn(3, 200), torch.ones(3, dtype=torch.bool)
    program = hx.export(on_meta(Masked), (x, mask), verify=False, weights=_save(Masked, tmp_path))
    assert [e.kind for e in program.report.escapes] == ["bool"]
    assert program.report.nodes == 1


def _save(cls, tmp_path):
    save_file(own(cls()), tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def item(self, x):
    y = x @ self.weight
    return y * y.max().item()


def branch(self, x):
    y = x @ self.weight
    return y if y.sum() > 0 else x


def listed(self, x):
    y = x @ self.weight
    return x * len(y.tolist())


def array(self, x):
    y = x @ self.weight
    return x + torch.from_numpy(y.numpy())


def places(self, x):
    y = x @ self.weight
    return y.nonzero()


def through_memory(self, x):
    y = torch.zeros(3, 200)
    y[:] = x @ self.weight
    return x * y[0, 0].item()


def of_the_weight(self, x):
    return x * self.weight.norm().item()


@pytest.mark.parametrize(
    "forward, line",
    [
        (item, "max().item()"),
        (branch, "y.sum() > 0"),
        (listed, "y.tolist()"),
        (array, "y.numpy()"),
        (places, "y.nonzero()"),
        (through_memory, "y[0, 0].item()"),
        (of_the_weight, "norm().item()"),
    ],
)
def test_what_weights_say_is_refused_at_its_line(forward, line, tmp_path, line_of):
    cls = type("Asks", (Large,), {"forward": forward})
    with pytest.raises(Unsupported, match="weights") as raised:
        export(cls, tmp_path, torch.randn(3, 200))
    assert raised.value.where.line == line_of(forward, line)
    assert not (tmp_path / "m.onnx").exists()


def test_writes_are_followed_where_contents_are_not(tmp_path):
    class Writes(Large):
        def forward(self, x):
            y = x @ self.weight
            same = y.to(y.device)  # the same tensor
            same += 1
            copy = y.to(y.device, copy=True)
            copy *= 3
            cache = torch.zeros(4, 200)
            cache[1:] = y
            part = cache[2:]
            part += copy[:2]
            ones = torch.ones_like(y)
            ones[0] = 2
            return y + cache[:3] * ones, copy

    assert export(Writes, tmp_path, torch.randn(3, 200)).proof.ok


def test_weights_may_be_computed_with(tmp_path):
    class Computes(Large):
        def forward(self, x):
            scaled = self.weight / self.weight.norm(dim=1, keepdim=True)
            return x @ (1 + scaled).t()[:, 10:90], self.weight[:3]

    assert export(Computes, tmp_path, torch.randn(3, 200)).proof.ok


def test_a_model_may_write_to_its_weights(tmp_path):
    class Clamps(Large):
        def forward(self, x):
            self.weight.data.clamp_(-0.05, 0.05)
            return x @ self.weight

    program = export(Clamps, tmp_path, torch.randn(3, 200))
    assert program.proof.ok


@pytest.mark.parametrize("make", [on_meta, lambda make: make()], ids=["meta", "real"])
def test_an_attribute_that_shows_a_weight_shows_the_one_in_the_file(make, tmp_path):
    class Shows(Large):
        def __init__(self):
            super().__init__()
            self.turned = self.weight.detach().t()

        def forward(self, x):
            return x @ self.turned[:, :50]

    wanted = torch.randn(200, 200)
    save_file({"weight": wanted}, tmp_path / "w.safetensors")
    x = torch.randn(3, 200)
    program = hx.export(make(Shows).eval(), (x,), weights=tmp_path / "w.safetensors")
    assert program.proof.ok
    torch.testing.assert_close(program.run(x), (x @ wanted.t())[:, :50], rtol=1e-4, atol=1e-4)


def test_autocast_is_refused_since_it_does_not_see_such_tensors(tmp_path):
    class Casts(Large):
        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return x @ self.weight

    with pytest.raises(Unsupported, match="autocast"):
        export(Casts, tmp_path, torch.randn(3, 200))


def test_a_weight_of_two_parts_is_put_together_in_the_graph(tmp_path):
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.utils.parametrizations.weight_norm(nn.Linear(200, 200))

        def forward(self, x):
            return self.linear(x)

    assert export(Normed, tmp_path, torch.randn(3, 200)).proof.ok


def test_a_shape_that_only_the_operator_itself_knows(tmp_path):
    """Outside of bfloat16, PyTorch has no shape for it without computing it."""

    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.Parameter(torch.randn(3, 64, 96))

        def forward(self, x, ends):
            return nn.functional.grouped_mm(x, self.experts, offs=ends)

    if not hasattr(nn.functional, "grouped_mm"):
        pytest.skip("this PyTorch has no grouped_mm")
    ends = torch.tensor([2, 5, 8], dtype=torch.int32)
    report = export(Grouped, tmp_path, torch.randn(8, 64), ends, verify=False).report
    assert report.outputs[0]["shape"] == [8, 96]


def test_to_the_model_all_is_on_the_cpu(tmp_path):
    class Asks(Large):
        def forward(self, x):
            y = x @ self.weight
            assert y.device == self.weight.device == x.device == torch.device("cpu")
            assert not self.weight.is_meta and y.is_cpu
            with torch.autocast(y.device.type, enabled=False):
                return y + torch.arange(200, device=y.device)

    assert export(Asks, tmp_path, torch.randn(3, 200)).proof.ok


def test_inputs_may_be_on_the_meta_device_too(tmp_path):
    class Net(Large):
        def forward(self, x):
            return x @ self.weight

    assert export(Net, tmp_path, torch.empty(3, 200, device="meta")).proof.ok


# Files.


def packed(header, data=b"", size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"w": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "longer than the file"),
        (b"\xff" * 9, "longer than the file"),
        (packed({}, size=1 << 40), "longer than the file"),
        (packed(b"[1, 2"), ""),
        (packed(b"[1, 2]"), "no table"),
        (packed(b"[" * 100_000), ""),
        (packed({"w": 3}), "lacks"),
        (packed({"w": {"dtype": "F32", "shape": 3, "data_offsets": [0, 4]}}), "shape"),
        (packed(entry(shape=(-2,)), bytes(8)), "shape"),
        (packed(entry(shape=(True,)), bytes(8)), "shape"),
        (packed(entry(dtype="F33"), bytes(8)), "F33"),
        (packed(entry(dtype=["F32"]), bytes(8)), "dtype"),
        (packed(entry(), bytes(7)), "does not fit"),
        (packed(entry(offsets=(4, 0)), bytes(8)), "does not fit"),
        (packed(entry(offsets=(0, 1 << 60)), bytes(8)), "does not fit"),
        (packed(entry(shape=(1 << 40, 1 << 40)), bytes(8)), "does not fit"),
    ],
)
def test_a_broken_file_is_told(content, said, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        checkpoint.contents(path)
    assert str(path) in str(raised.value) and said in str(raised.value)


@pytest.mark.parametrize(
    "index, said",
    [
        ("{", "not an index"),
        ("[]", "not an index"),
        ('{"weight_map": 3}', "not an index"),
        ('{"weight_map": {"w": "../w.safetensors"}}', "outside"),
        ('{"weight_map": {"w": "/etc/w.safetensors"}}', "outside"),
        ('{"weight_map": {"w": "gone.safetensors"}}', "there is no file"),
        ('{"weight_map": {"v": "w.safetensors"}}', "it is not"),
    ],
)
def test_a_broken_index_is_told(index, said, tmp_path):
    save_file({"w": torch.ones(2)}, tmp_path / "w.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(UsageError, match=said):
        checkpoint.contents(tmp_path)


def test_a_folder_without_weights_or_with_several(tmp_path):
    with pytest.raises(UsageError, match="no weights"):
        checkpoint.contents(tmp_path)
    for name in ("a", "b"):
        save_file({name: torch.ones(2)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(UsageError, match=r"a\.safetensors, b\.safetensors"):
        checkpoint.contents(tmp_path)
    save_file({"w": torch.ones(2)}, tmp_path / "model.safetensors")
    assert list(checkpoint.contents(tmp_path)) == ["w"]


def test_every_dtype_is_read_as_the_library_reads_it(tmp_path):
    tensors = {
        name: torch.randint(0, 2, (3, 5)).to(getattr(torch, name))
        for name in checkpoint._NAMES.values()
        if name not in ("float8_e8m0fnu", "complex64")
    }
    save_file(tensors, tmp_path / "w.safetensors")
    found = checkpoint.contents(tmp_path / "w.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name].load().view(torch.uint8), tensor.view(torch.uint8))
        assert (
            b"".join(map(bytes, found[name].chunks())) == tensor.view(torch.uint8).numpy().tobytes()
        )


def test_a_file_that_shrinks_while_it_is_read(real, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(own(real), path)
    found = checkpoint.contents(path)["embed.weight"]
    with path.open("r+b") as file:
        file.truncate(found.at + 100)
    with pytest.raises(ExportError, match="shorter"):
        list(found.chunks())


def test_pytorchs_own_files_are_taken_too(real, tmp_path):
    torch.save(real.state_dict(), tmp_path / "w.pt")
    model = on_meta(Language)
    assert hx.export(model, (IDS,), tmp_path / "m.onnx", weights=tmp_path / "w.pt").proof.ok


# Memory.

SCRIPT = """
import resource, sys
import torch
from torch import nn
import hx
from hx.hollow import hollow

def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

hx.export(nn.Linear(4, 4).eval(), torch.ones(1, 4), sys.argv[2] + ".small.onnx", verify=False)
with hollow():
    model = nn.Sequential(*[nn.Linear(3000, 3000, bias=False) for _ in range(4)])
before = used()
hx.export(model, torch.ones(1, 3000), sys.argv[2], weights=sys.argv[1], dtype=sys.argv[3] or None,
          verify=False, external_data=True)
print(used() - before)
"""


@pytest.fixture
def sparse(tmp_path):
    """144 MB of zeros that take no room on the disk."""
    size = 3000 * 3000 * 4
    header = {
        f"{i}.weight": {
            "dtype": "F32",
            "shape": [3000, 3000],
            "data_offsets": [i * size, (i + 1) * size],
        }
        for i in range(4)
    }
    path = tmp_path / "sparse.safetensors"
    content = packed(header)
    path.write_bytes(content)
    with path.open("r+b") as file:
        file.truncate(len(content) + 4 * size)
    return path


@pytest.mark.parametrize("dtype", ["", "float16"])
def test_weights_pass_through_without_being_held(dtype, sparse, tmp_path):
    words = [sys.executable, "-c", SCRIPT, str(sparse), str(tmp_path / "m.onnx"), dtype]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (tmp_path / "m.onnx").exists()
    assert int(done.stdout) < 18 << 20  # half of one weight


def test_what_the_memory_does_not_hold_is_not_run_and_said(file, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "FEW", 0)
    monkeypatch.setattr(room, "left", lambda: room.Room(100 << 20, 100 << 20))
    path = tmp_path / "m.onnx"
    program = hx.export(on_meta(Language), (IDS,), path, weights=file, external_data=True)
    proof = program.proof
    assert path.exists() and not proof.ok and not proof.wrong and not proof.cases
    assert "not run: onnxruntime needs about" in proof.summary()
    assert "0.1 GB are left" in json.loads(program.report.to_json())["proof"]["not_run"]


def test_what_fits_one_weight_at_a_time_is_run_without_optimisations(file, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "FEW", 0)
    size = file.stat().st_size
    monkeypatch.setattr(room, "left", lambda: room.Room(room.SLACK + 2 * size - 9999, room.PLENTY))
    path = tmp_path / "m.onnx"
    program = hx.export(on_meta(Language), (IDS,), path, weights=file, external_data=True)
    assert program.proof.ok and program.proof.plain
    assert "without onnxruntime's optimisations" in program.proof.summary()


@pytest.mark.skipif(
    sys.platform != "linux", reason="/proc tells how much memory is a process's own"
)
def test_without_optimisations_a_file_is_run_one_weight_at_a_time(sparse, tmp_path):
    script = """
import sys
from pathlib import Path
import torch
from torch import nn
import hx
from hx.hollow import hollow
from hx.runtime import Session

def own():
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10

with hollow():
    model = nn.Sequential(*[nn.Linear(3000, 3000, bias=False) for _ in range(4)])
x = torch.ones(1, 2, 3000)
hx.export(model, x, sys.argv[2], weights=sys.argv[1], verify=False, external_data=True)
before = own()
session = Session(Path(sys.argv[2]), optimized=False)
session.run({"input": x})
print(own() - before)
"""
    words = [sys.executable, "-c", script, str(sparse), str(tmp_path / "m.onnx")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50 << 20  # of four weights of 36 MB


def test_the_memory_that_is_left_is_that_of_the_limit():
    script = """
import resource
from hx import room
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
print(room.left().addresses)
resource.setrlimit(resource.RLIMIT_DATA, (1 << 28, 1 << 28))
print(room.left().memory)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    addresses, memory = map(int, done.stdout.split())
    assert 0 < memory < 1 << 28 < addresses < 1 << 30


def test_two_threads_may_export_one_model(file, tmp_path):
    model = on_meta(Language)
    before = dict(model.named_parameters())

    def work(number):
        path = tmp_path / f"{number}.onnx"
        hx.export(model, (IDS,), path, dynamic=AXES, weights=file, verify=False)
        return path.read_bytes()

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(work, range(4)))
    assert len(found) == 1
    assert all(before[name] is tensor for name, tensor in model.named_parameters())


def test_a_program_of_such_a_model_runs(real, file, tmp_path):
    program = hx.export(on_meta(Language), (IDS,), tmp_path / "m.onnx", dynamic=AXES, weights=file)
    with torch.no_grad():
        torch.testing.assert_close(program.run(IDS), real(IDS), rtol=1e-4, atol=1e-4)
    with pytest.raises(UsageError, match="one by one"):
        program.check_nodes()


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_the_data_file_has_the_same_name_again(tmp_path, dtype):
    """Its name is made of sums over pieces that come while the ones before are still summed up."""
    wide = nn.Linear(2048, 2048)
    save_file(wide.state_dict(), tmp_path / "w.safetensors")
    with torch.device("meta"):
        empty = nn.Linear(2048, 2048)
    names = set()
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        x = torch.randn(2, 2048)
        hx.export(empty, x, folder / "m.onnx", weights=tmp_path / "w.safetensors", verify=False,
                  external_data=True, dtype=dtype)  # fmt: skip
        names.add(tuple(sorted(path.name for path in folder.iterdir())))
    assert len(names) == 1 and len(*names) == 2

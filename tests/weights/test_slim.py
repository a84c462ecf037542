"""Models without their weights: on the meta device with the weights in files, or cast on the way."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
import torch
from language import AXES, IDS, Language, on_meta, own
from onnx import numpy_helper
from safetensors.torch import save_file
from torch import nn

import hx
from hx.errors import UsageError


def stored(path):
    model = onnx.load(path)
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


@pytest.fixture
def folder(language, tmp_path):
    """Three shards with an index, as transformers writes them."""
    place = tmp_path / "checkpoint"
    place.mkdir()
    tensors, where = own(language), {}
    for number in range(3):
        name = f"model-{number + 1:05}-of-00003.safetensors"
        shard = dict(list(tensors.items())[number::3])
        save_file(shard, place / name)
        where.update(dict.fromkeys(shard, name))
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return place


@pytest.mark.parametrize("given", ["file", "folder", "index", "no index"])
def test_weights_are_streamed_from_files(given, language, language_file, folder, tmp_path):
    index = folder / "model.safetensors.index.json"
    places = {"file": language_file, "folder": folder, "index": index, "no index": folder}
    if given == "no index":
        index.unlink()
    model = on_meta(Language)
    program = hx.export(model, (IDS,), tmp_path / "m.onnx", dynamic=AXES, weights=places[given])
    assert program.proof.ok
    names = [check.name for check in program.proof.cases]
    assert "recorded" in names and "fresh" in names and len(names) > 3
    found = stored(tmp_path / "m.onnx")
    for name, tensor in own(language).items():
        np.testing.assert_array_equal(found[name], tensor.numpy())
    ids = torch.tensor([[7, 0, 2]])
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (got,) = session.run(None, {"ids": ids.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(got), language(ids), rtol=1e-4, atol=1e-4)


def test_the_graph_is_that_of_the_model_with_its_weights(language, language_file, tmp_path):
    hx.export(language, (IDS,), tmp_path / "real.onnx", dynamic=AXES, verify=False)
    model = on_meta(Language)
    hx.export(
        model, (IDS,), tmp_path / "meta.onnx", dynamic=AXES, verify=False, weights=language_file
    )
    here, there = (onnx.load(tmp_path / name).graph for name in ("real.onnx", "meta.onnx"))
    # What is in memory is stored transposed where that is all that a graph would do with it.
    turned = {f"{weight.name}.transposed" for weight in there.initializer}
    turned &= {weight.name for weight in here.initializer}
    ops = [node.op_type for node in there.node if f"{node.input[0]}.transposed" not in turned]
    assert turned and ops == [node.op_type for node in here.node]


def test_the_users_model_stays_on_meta(language_file, tmp_path):
    model = on_meta(Language)
    before = {name: (tensor, vars(tensor).copy()) for name, tensor in model.named_parameters()}
    hx.export(model, (IDS,), tmp_path / "m.onnx", weights=language_file)
    after = dict(model.named_parameters())
    assert all(after[name] is tensor and tensor.is_meta for name, (tensor, _) in before.items())
    assert model.head.weight is model.embed.weight
    assert model.training


@pytest.mark.parametrize("external", [False, True])
def test_tied_weights_are_stored_once(external, language_file, tmp_path):
    model = on_meta(Language)
    path = tmp_path / "m.onnx"
    program = hx.export(model, (IDS,), path, weights=language_file, external_data=external)
    assert program.report.size < 1.1 * language_file.stat().st_size
    found = stored(path)
    assert "embed.weight" in found and "head.weight" not in found


def test_twins_that_are_two_parameters_are_stored_once_too(language, language_file, tmp_path):
    class Twins(Language):
        def __init__(self):
            super().__init__()
            self.head.weight = nn.Parameter(self.embed.weight.detach())

    path = tmp_path / "m.onnx"
    program = hx.export(on_meta(Twins), (IDS,), path, weights=language_file, external_data=True)
    assert program.proof.ok
    assert program.report.size < 1.1 * language_file.stat().st_size


def test_what_does_not_fit_is_told_by_name(language, tmp_path):
    tensors = own(language)
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


def test_another_dtype_in_the_file_is_cast_when_a_dtype_is_asked_for(language, tmp_path):
    halves = {name: tensor.half() for name, tensor in own(language).items()}
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


def test_a_table_that_no_file_has_is_told(language_file, tmp_path):
    class Lost(Language):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(500.0), persistent=False)

        def forward(self, ids):
            return super().forward(ids) + self.table

    with pytest.raises(UsageError, match=r"no contents: table\n"):
        hx.export(on_meta(Lost), (IDS,), tmp_path / "m.onnx", weights=language_file)


def test_a_file_may_have_a_buffer_that_a_state_dict_leaves_out(language, tmp_path):
    """Older checkpoints have the frequencies of rotary embeddings."""
    tensors = {**own(language), "frequencies": language.frequencies * 2}
    save_file(tensors, tmp_path / "w.safetensors")
    model = on_meta(Language)
    path = tmp_path / "m.onnx"
    assert hx.export(model, (IDS,), path, weights=tmp_path / "w.safetensors").proof.ok


def test_a_dry_run_needs_no_weights():
    report = hx.scan(on_meta(Language), (IDS,), dynamic=AXES)
    assert report.covered and report.converters["torch.nn.functional.linear"] == 5
    assert not report.escapes


def test_part_of_a_model_may_have_its_weights(language, tmp_path):
    model = Language().eval()
    model.blocks[1].up = on_meta(lambda: nn.Linear(160, 640))
    wanted = {n: t for n, t in own(language).items() if n.startswith("blocks.1.up.")}
    save_file(wanted, tmp_path / "w.safetensors")
    path = tmp_path / "m.onnx"
    program = hx.export(model, (IDS,), path, weights=tmp_path / "w.safetensors")
    assert program.proof.ok
    assert "not in the weights, and as the model has them: embed.weight" in program.report.notes[0]
    found = stored(path)
    np.testing.assert_array_equal(found["blocks.1.up.bias"], wanted["blocks.1.up.bias"].numpy())
    np.testing.assert_array_equal(found["embed.weight"], model.embed.weight.detach().numpy())


def test_pytorchs_own_files_are_taken_too(language, tmp_path):
    torch.save(language.state_dict(), tmp_path / "w.pt")
    model = on_meta(Language)
    assert hx.export(model, (IDS,), tmp_path / "m.onnx", weights=tmp_path / "w.pt").proof.ok


def test_two_threads_may_export_one_model(language_file, tmp_path):
    model = on_meta(Language)
    before = dict(model.named_parameters())

    def work(number):
        path = tmp_path / f"{number}.onnx"
        hx.export(model, (IDS,), path, dynamic=AXES, weights=language_file, verify=False)
        return path.read_bytes()

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(work, range(4)))
    assert len(found) == 1
    assert all(before[name] is tensor for name, tensor in model.named_parameters())


def test_a_program_of_such_a_model_runs(language, language_file, tmp_path):
    program = hx.export(
        on_meta(Language), (IDS,), tmp_path / "m.onnx", dynamic=AXES, weights=language_file
    )
    with torch.no_grad():
        torch.testing.assert_close(program.run(IDS), language(IDS), rtol=1e-4, atol=1e-4)
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


# Casts.


@pytest.mark.parametrize("dtype", ["float16", torch.bfloat16])
def test_a_model_with_its_weights_is_cast_on_the_way(dtype, language, tmp_path):
    before = {name: tensor.clone() for name, tensor in language.state_dict().items()}
    path = tmp_path / "m.onnx"
    program = hx.export(language, (IDS,), path, dynamic=AXES, dtype=dtype)
    assert program.proof.ok
    name = str(dtype).removeprefix("torch.")
    assert program.report.outputs[0]["dtype"] == name
    for key, tensor in language.state_dict().items():
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


def test_a_dtype_that_is_none_is_refused(language, tmp_path):
    with pytest.raises(UsageError, match="float16, bfloat16"):
        hx.export(language, (IDS,), tmp_path / "m.onnx", dtype="int8")


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

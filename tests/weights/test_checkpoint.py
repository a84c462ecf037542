"""Files of weights: what is broken is told, and the rest is read as it is."""

from __future__ import annotations

import pytest
import torch
from headers import packed
from language import own
from safetensors.torch import save_file

from hx.errors import ExportError, UsageError
from hx.weights import checkpoint


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


def test_a_file_that_shrinks_while_it_is_read(language, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(own(language), path)
    found = checkpoint.contents(path)["embed.weight"]
    with path.open("r+b") as file:
        file.truncate(found.at + 100)
    with pytest.raises(ExportError, match="shorter"):
        list(found.chunks())

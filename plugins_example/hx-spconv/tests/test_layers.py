"""Each layer of spconv in both forms: proved by hx, and the same in onnxruntime, order included."""

import numpy as np
import pytest
import torch
from hx_spconv.examples import points
from torch import nn

import hx

spconv = pytest.importorskip(
    "spconv.pytorch", reason="spconv is not installed: see 'Run the tests' in the README"
)

SPACE, BATCH = [9, 14, 16], 2
ANY = {"features": {0: "points"}, "indices": {0: "points"}}


class Layers(nn.Module):
    """A sparse tensor through some layers; its features and its points come out."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = spconv.SparseSequential(*layers)

    def forward(self, features, indices):
        out = self.layers(spconv.SparseConvTensor(features, indices, SPACE, BATCH))
        return out.features, out.indices


def submanifold(*args, **kwargs):
    return spconv.SubMConv3d(*args, bias=False, **kwargs)


def strided(*args, **kwargs):
    return spconv.SparseConv3d(*args, bias=False, **kwargs)


def inverse(*args, **kwargs):
    return spconv.SparseInverseConv3d(*args, bias=False, **kwargs)


def transposed(*args, **kwargs):
    return spconv.SparseConvTranspose3d(*args, bias=False, **kwargs)


LAYERS = {
    "submanifold": lambda: [submanifold(4, 8, 3)],
    "wide and flat": lambda: [submanifold(4, 8, (1, 5, 3), dilation=(1, 1, 2))],
    "one key for several": lambda: [
        submanifold(4, 8, 3, indice_key="a"),
        *[nn.BatchNorm1d(8), nn.ReLU()],
        submanifold(8, 8, 3, indice_key="a"),
    ],
    "stride 2": lambda: [strided(4, 8, 3, 2, 1)],
    "uneven": lambda: [strided(4, 8, (3, 1, 2), (2, 1, 3), (1, 0, 1))],
    "dilated": lambda: [strided(4, 8, 3, 1, 2, dilation=2)],
    "there and back": lambda: [
        strided(4, 8, 3, 2, 1, indice_key="down"),
        submanifold(8, 8, 3),
        inverse(8, 4, 3, indice_key="down"),
    ],
    "pools": lambda: [spconv.SparseMaxPool3d(2, 2), spconv.SparseMaxPool3d(3, 1, 1)],
    "a pool and back": lambda: [
        spconv.SparseMaxPool3d(2, 2, indice_key="pool"),
        inverse(4, 4, 2, indice_key="pool"),
    ],
    "transposed": lambda: [transposed(4, 3, 3, 2, 1)],
    "transposed, dilated": lambda: [transposed(4, 3, 3, (1, 2, 3), 1, dilation=2)],
    "one by one": lambda: [spconv.SubMConv3d(4, 8, 1), spconv.SparseConv3d(8, 8, 1)],
    "PyTorch's own": lambda: [nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.5)],
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, export, form, in_onnxruntime):
    torch.manual_seed(0)
    model = Layers(*LAYERS[name]())
    args = torch.randn(150, 4), points(150, SPACE, BATCH)
    program, path = export(model, args, dynamic=ANY, strict=True)
    assert len(program.proof.cases) == 4, "recorded, fresh, and two other numbers of points"
    if form == "standard":
        for count in (1, 37, 400):
            other = torch.randn(count, 4), points(count, SPACE, BATCH, seed=count)
            with torch.no_grad():
                features, indices = model(*other)
            got = in_onnxruntime(path, *other)
            np.testing.assert_array_equal(got[1], indices)
            np.testing.assert_allclose(got[0], features, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_other_ranks(rank, export):
    space = [12, 11, 7, 6][:rank]
    made = {
        1: (spconv.SubMConv1d, spconv.SparseConv1d, spconv.SparseMaxPool1d),
        2: (spconv.SubMConv2d, spconv.SparseConv2d, spconv.SparseMaxPool2d),
        4: (spconv.SubMConv4d, spconv.SparseConv4d, spconv.SparseMaxPool4d),
    }[rank]

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            conv = made[0](3, 4, 3, bias=False), made[1](4, 4, 3, 2, 1, bias=False)
            self.layers = spconv.SparseSequential(*conv, made[2](2, 1))

        def forward(self, features, indices):
            return self.layers(spconv.SparseConvTensor(features, indices, space, 1)).dense()

    cells = torch.cartesian_prod(torch.arange(1), *map(torch.arange, space)).reshape(-1, rank + 1)
    some = cells[torch.randperm(len(cells))[: min(60, len(cells) // 2 + 1)]].int()
    export(Flat(), (torch.randn(len(some), 3), some))


def test_without_dynamic_the_number_of_points_that_come_out_still_is_that_of_the_data(
    export, form, in_onnxruntime
):
    """How many there are after a stride depends on where they lie."""
    model = Layers(strided(4, 8, 3, 2, 1))
    _, path = export(model, (torch.randn(90, 4), points(90, SPACE, BATCH)))
    counts = set()
    if form == "standard":
        for seed in range(5):
            other = torch.randn(90, 4), points(90, SPACE, BATCH, seed)
            with torch.no_grad():
                features, _ = model(*other)
            np.testing.assert_allclose(in_onnxruntime(path, *other)[0], features, atol=1e-5)
            counts.add(len(features))
        assert len(counts) > 1


def test_a_number_of_scenes_that_is_read_from_the_points(form, export, in_onnxruntime):
    class Scenes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = submanifold(4, 4, 3)

        def forward(self, features, indices):
            scenes = indices[:, 0].max().item() + 1
            return self.layer(spconv.SparseConvTensor(features, indices, SPACE, scenes)).dense()

    args = torch.randn(90, 4), points(90, SPACE, 3)
    if form == "custom":  # an attribute of ToDense, which is written into the file
        with pytest.raises(hx.Unsupported, match="depends on a size"):
            export(Scenes(), args, dynamic=ANY)
        return
    model = Scenes()
    _, path = export(model, args, dynamic=ANY)
    other = torch.randn(70, 4), points(70, SPACE, 5)
    with torch.no_grad():
        want = model(*other)
    assert want.shape[0] == 5
    np.testing.assert_allclose(in_onnxruntime(path, *other)[0], want, atol=1e-5)


@pytest.mark.parametrize("channels_first", [True, False])
def test_dense(channels_first, export):
    class Dense(nn.Module):
        def forward(self, features, indices):
            x = spconv.SparseConvTensor(features, indices, SPACE, BATCH)
            return x.dense(channels_first) if not channels_first else spconv.ToDense()(x)

    export(Dense(), (torch.randn(50, 4), points(50, SPACE, BATCH)), dynamic=ANY)


def test_no_points_at_all(export, form, in_onnxruntime):
    model = Layers(submanifold(4, 8, 3), nn.ReLU())
    _, path = export(model, (torch.randn(50, 4), points(50, SPACE, BATCH)), dynamic=ANY)
    if form == "standard":
        got = in_onnxruntime(path, torch.randn(0, 4), torch.empty(0, 4, dtype=torch.int32))
        assert got[0].shape == (0, 8) and got[1].shape == (0, 4)

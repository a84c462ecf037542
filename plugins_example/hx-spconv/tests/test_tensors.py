"""What models do with sparse tensors between layers; they go into a model, and come out of it."""

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


def conv(channels, out, **kwargs):
    return spconv.SubMConv3d(channels, out, 3, bias=False, **kwargs)


def down(channels, out, **kwargs):
    return spconv.SparseConv3d(channels, out, 3, 2, 1, bias=False, **kwargs)


class Body(nn.Module):
    """A function of a sparse tensor and the layers that it is given."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, features, indices):
        x = spconv.SparseConvTensor(features, indices, SPACE, BATCH)
        return self.function(self, x)


@pytest.fixture
def follow(export):
    def run(function, **layers):
        args = torch.randn(120, 4), points(120, SPACE, BATCH)
        return export(Body(function, **layers), args, dynamic=ANY, strict=True)[0]

    return run


def test_a_sparse_tensor_is_an_input_and_an_output(export):
    x = spconv.SparseConvTensor(torch.randn(80, 4), points(80, SPACE, BATCH), SPACE, BATCH)
    model = spconv.SparseSequential(conv(4, 8), nn.ReLU(), down(8, 8))
    dynamic = {"input_features": {0: "points"}, "input_indices": {0: "points"}}
    program, _ = export(model, x, dynamic=dynamic)
    assert [v.name for v in program.model.graph.inputs] == ["input_features", "input_indices"]
    assert [v.name for v in program.model.graph.outputs] == ["features", "indices"]


def test_sums_and_replaced_features(follow):
    def body(self, x):
        out = self.a(x)
        out = out.replace_feature(torch.relu(out.features))
        out = self.b(out) + x  # one sparse tensor and another
        features = out.features
        features += x.features  # in place
        out = out + features * 2
        return out.minus().features, out.indices

    follow(body, a=conv(4, 4, indice_key="k"), b=conv(4, 4, indice_key="k"))


def test_in_place_relu_and_a_shared_table(follow):
    def body(self, x):
        same = spconv.AddTable()([self.a(x), self.b(x)])
        both = spconv.JoinTable()([same, x])
        return self.relu(both.features)

    follow(body, a=conv(4, 4), b=conv(4, 4), relu=nn.ReLU(inplace=True))


def test_coordinates_are_values_of_the_graph(follow):
    """What VoxelNeXt does: finer and coarser points are laid over one another."""

    def body(self, x):
        a = self.down(x)
        b = self.again(a)
        b.indices[:, 1:] *= 2
        a = a.replace_feature(torch.cat([a.features, b.features]))
        a.indices = torch.cat([a.indices, b.indices])
        cells, row = torch.unique(a.indices[:, [0, 2, 3]], dim=0, return_inverse=True)
        features = a.features.new_zeros((cells.shape[0], a.features.shape[1]))
        features.index_add_(0, row, a.features)
        flat = spconv.SparseConvTensor(features, cells, a.spatial_shape[1:], BATCH)
        return self.flat(flat).dense(), b.indices

    flat = spconv.SubMConv2d(8, 4, 3, bias=False)
    follow(body, down=down(4, 8), again=down(8, 8), flat=flat)


def test_writing_to_coordinates_is_seen_wherever_they_are_shared(follow):
    """A submanifold layer gives its points on as they are: the same memory."""

    def body(self, x):
        first = self.down(x)
        second = self.a(first)
        second.indices[:, 1:] += 1
        return first.indices, second.indices, self.b(second).indices

    follow(body, down=down(4, 4), a=conv(4, 4, indice_key="k"), b=conv(4, 4, indice_key="k"))


def test_a_key_keeps_the_neighbours_that_it_was_made_with(follow):
    """As in spconv: coordinates that change afterwards change nothing."""

    def body(self, x):
        first = self.a(x)
        first.indices[:, 1:] *= 3
        return self.b(first).features

    follow(body, a=conv(4, 4, indice_key="k"), b=conv(4, 4, indice_key="k"))


def test_an_inverse_gives_back_the_points_as_they_are_now(follow):
    def body(self, x):
        low = self.down(x)
        x.indices[:, 1:] += 2
        back = self.up(low)
        return back.features, back.indices

    up = spconv.SparseInverseConv3d(8, 4, 3, indice_key="d", bias=False)
    follow(body, down=down(4, 8, indice_key="d"), up=up)


def test_from_dense(follow):
    def body(self, x):
        field = x.replace_feature(torch.relu(x.features)).dense(False)
        back = spconv.SparseConvTensor.from_dense(field)
        return self.a(back).features, back.indices

    follow(body, a=conv(4, 4))


def test_selected_points(follow):
    def body(self, x):
        there = x.indices[:, 2] > 3
        kept = spconv.SparseConvTensor(x.features[there], x.indices[there], SPACE, BATCH)
        return self.a(kept).dense()

    follow(body, a=conv(4, 4))


def test_rules_from_before_the_export_are_refused(export):
    x = spconv.SparseConvTensor(torch.randn(80, 4), points(80, SPACE, BATCH), SPACE, BATCH)
    first, second = conv(4, 4, indice_key="k"), conv(4, 4, indice_key="k")
    with torch.no_grad():
        used = first(x)
    with pytest.raises(hx.Unsupported, match="'k' were worked out before the export"):
        export(second, used)


def test_a_sum_inside_of_a_layer_is_refused(export):
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = conv(4, 4)

        def forward(self, features, indices):
            x = spconv.SparseConvTensor(features, indices, SPACE, BATCH)
            return self.a(x, add_input=x).features

    with pytest.raises(hx.Unsupported, match="a sum inside"):
        export(Inside(), (torch.randn(50, 4), points(50, SPACE, BATCH)))

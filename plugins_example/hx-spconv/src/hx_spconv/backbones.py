"""Backbones in the shapes that people train: CenterPoint's, VoxelNeXt's, and a sparse U-Net.

Without biases in the sparse layers, which spconv has no CPU code for. By name they are
`hx export spconv:centerpoint`, `spconv:voxelnext` and `spconv:unet`.
"""

import spconv.pytorch as spconv
import torch
from torch import nn

from hx_spconv.examples import points


def norm(channels):
    return [nn.BatchNorm1d(channels, eps=1e-3, momentum=0.01), nn.ReLU()]


def down(channels, out, key, kernel=3, stride=2, padding=1, layer=spconv.SparseConv3d):
    conv = layer(channels, out, kernel, stride, padding, bias=False, indice_key=key)
    return spconv.SparseSequential(conv, *norm(out))


class Residual(spconv.SparseModule):
    """Two submanifold convolutions with the same points, and the sum with what came in."""

    def __init__(self, channels, key, layer=spconv.SubMConv3d):
        super().__init__()
        self.conv1 = layer(channels, channels, 3, padding=1, bias=False, indice_key=key)
        self.bn1 = nn.BatchNorm1d(channels, eps=1e-3)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = layer(channels, channels, 3, padding=1, bias=False, indice_key=key)
        self.bn2 = nn.BatchNorm1d(channels, eps=1e-3)

    def forward(self, x):
        out = self.conv1(x)
        out = out.replace_feature(self.relu(self.bn1(out.features)))
        out = self.conv2(out)
        features = self.bn2(out.features)
        features += x.features
        return out.replace_feature(self.relu(features))


def stage(*layers):
    return spconv.SparseSequential(*layers)


class VoxelEncoder(nn.Module):
    """CenterPoint's middle encoder: four stages of residual blocks, then the bird's eye view."""

    def __init__(self, shape=(41, 64, 64), channels=5, widths=(16, 32, 64, 128)):
        super().__init__()
        self.shape = list(shape)
        a, b, c, d = widths
        first = spconv.SubMConv3d(channels, a, 3, bias=False, indice_key="res0")
        self.conv_input = stage(first, *norm(a))
        self.conv1 = stage(Residual(a, "res0"), Residual(a, "res0"))
        self.conv2 = stage(down(a, b, "down2"), Residual(b, "res1"), Residual(b, "res1"))
        self.conv3 = stage(down(b, c, "down3"), Residual(c, "res2"), Residual(c, "res2"))
        last = down(c, d, "down4", padding=[0, 1, 1])
        self.conv4 = stage(last, Residual(d, "res3"), Residual(d, "res3"))
        self.extra_conv = down(d, d, None, (3, 1, 1), (2, 1, 1), 0)

    def forward(self, voxel_features, coordinates, batch_size=1):
        x = spconv.SparseConvTensor(voxel_features, coordinates.int(), self.shape, batch_size)
        x = self.conv4(self.conv3(self.conv2(self.conv1(self.conv_input(x)))))
        dense = self.extra_conv(x).dense()
        n, c, d, h, w = dense.shape
        return dense.view(n, c * d, h, w)


class FullySparse(nn.Module):
    """VoxelNeXt's: six stages, the last three laid over one another, and a head on the points."""

    def __init__(self, shape=(41, 64, 64), channels=5, widths=(16, 32, 64, 128), classes=3):
        super().__init__()
        self.shape = list(shape)
        a, b, c, d = widths
        first = spconv.SubMConv3d(channels, a, 3, bias=False, indice_key="res1")
        self.conv1 = stage(first, *norm(a), Residual(a, "res1"), Residual(a, "res1"))
        self.conv2 = stage(down(a, b, "spconv2"), Residual(b, "res2"), Residual(b, "res2"))
        self.conv3 = stage(down(b, c, "spconv3"), Residual(c, "res3"), Residual(c, "res3"))
        self.conv4 = stage(down(c, d, "spconv4"), Residual(d, "res4"), Residual(d, "res4"))
        self.conv5 = stage(down(d, d, "spconv5"), Residual(d, "res5"), Residual(d, "res5"))
        self.conv6 = stage(down(d, d, "spconv6"), Residual(d, "res6"), Residual(d, "res6"))
        self.conv_out = down(d, d, "spconv_down2", 3, 1, 1, spconv.SparseConv2d)
        shared = spconv.SubMConv2d(d, d, 3, padding=1, bias=False, indice_key="shared")
        self.shared_conv = stage(shared, *norm(d))
        self.heatmap = spconv.SubMConv2d(d, classes, 1, bias=True, indice_key="heat")

    def forward(self, voxel_features, coordinates, batch_size=1):
        x = spconv.SparseConvTensor(voxel_features, coordinates.int(), self.shape, batch_size)
        x4 = self.conv4(self.conv3(self.conv2(self.conv1(x))))
        x5 = self.conv5(x4)
        x6 = self.conv6(x5)
        x5.indices[:, 1:] *= 2
        x6.indices[:, 1:] *= 4
        x4 = x4.replace_feature(torch.cat([x4.features, x5.features, x6.features]))
        x4.indices = torch.cat([x4.indices, x5.indices, x6.indices])
        out = self.shared_conv(self.conv_out(self.from_above(x4)))
        return self.heatmap(out).features.sigmoid(), out.indices

    def from_above(self, x):
        """Points that lie above one another become one."""
        cells, row = torch.unique(x.indices[:, [0, 2, 3]], dim=0, return_inverse=True)
        features = x.features.new_zeros((cells.shape[0], x.features.shape[1]))
        features.index_add_(0, row, x.features)
        return spconv.SparseConvTensor(features, cells, x.spatial_shape[1:], x.batch_size)


class UNet(nn.Module):
    """A segmentation network: down, and up again to the points that there were."""

    def __init__(self, shape=(41, 64, 64), channels=5, widths=(16, 32, 64), classes=5):
        super().__init__()
        self.shape = list(shape)
        a, b, c = widths
        self.enter = stage(spconv.SubMConv3d(channels, a, 3, bias=False, indice_key="s0"), *norm(a))
        self.down1 = stage(down(a, b, "d1", 2, 2, 0), Residual(b, "s1"))
        self.down2 = stage(down(b, c, "d2", 2, 2, 0), Residual(c, "s2"))
        self.up2 = spconv.SparseInverseConv3d(c, b, 2, indice_key="d2", bias=False)
        self.join1 = stage(spconv.SubMConv3d(2 * b, b, 3, bias=False, indice_key="s1"), *norm(b))
        self.up1 = spconv.SparseInverseConv3d(b, a, 2, indice_key="d1", bias=False)
        self.join0 = stage(spconv.SubMConv3d(2 * a, a, 3, bias=False, indice_key="s0"), *norm(a))
        self.classify = nn.Linear(a, classes)

    def forward(self, voxel_features, coordinates, batch_size=1):
        x = spconv.SparseConvTensor(voxel_features, coordinates.int(), self.shape, batch_size)
        whole = self.enter(x)
        half = self.down1(whole)
        low = self.up2(self.down2(half))
        low = self.join1(low.replace_feature(torch.cat([low.features, half.features], 1)))
        out = self.up1(low)
        out = self.join0(out.replace_feature(torch.cat([out.features, whole.features], 1)))
        return self.classify(out.features)


def unet():
    return _trained(UNet()), (torch.randn(2000, 5), points(2000, (41, 64, 64)))


def centerpoint():
    return _trained(VoxelEncoder()), (torch.randn(2000, 5), points(2000, (41, 64, 64)))


def voxelnext():
    return _trained(FullySparse()), (torch.randn(2000, 5), points(2000, (41, 64, 64)))


def _trained(model):
    """Statistics as training leaves them: fresh ones would hide what a normalization does."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    return model.eval()

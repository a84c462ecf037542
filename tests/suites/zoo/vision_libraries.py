"""Models of libraries for pictures and volumes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from . import BATCH

Built = tuple[nn.Module, tuple, dict[str, dict[int, str]]]
MODELS: dict[str, Callable[[], Built]] = {}


def model(build: Callable[[], Built]) -> Callable[[], Built]:
    MODELS[build.__name__] = build
    return build


def pictures(count: int = 2, channels: int = 3, size: int = 64) -> torch.Tensor:
    return torch.randn(count, channels, size, size)


@model
def smp_unet() -> Built:
    import segmentation_models_pytorch as s

    return s.Unet("resnet18", encoder_weights=None), (pictures(),), {"x": BATCH}


@model
def smp_unet_plus_plus() -> Built:
    import segmentation_models_pytorch as s

    return (
        s.UnetPlusPlus("resnet18", encoder_weights=None),
        (pictures(),),
        {"x": {0: "batch", 2: "h%32", 3: "w%32"}},
    )


@model
def smp_deeplab() -> Built:
    import segmentation_models_pytorch as s

    return s.DeepLabV3Plus("resnet18", encoder_weights=None), (pictures(),), {"x": BATCH}


@model
def smp_fpn() -> Built:
    import segmentation_models_pytorch as s

    return s.FPN("mobilenet_v2", encoder_weights=None), (pictures(),), {"x": BATCH}


@model
def smp_manet() -> Built:
    import segmentation_models_pytorch as s

    return s.MAnet("resnet18", encoder_weights=None), (pictures(),), {"x": BATCH}


@model
def smp_pan() -> Built:
    import segmentation_models_pytorch as s

    return s.PAN("resnet18", encoder_weights=None), (pictures(2, 3, 128),), {"x": BATCH}


@model
def smp_segformer() -> Built:
    import segmentation_models_pytorch as s

    return s.Segformer("resnet18", encoder_weights=None), (pictures(),), {"x": BATCH}


@model
def smp_upernet() -> Built:
    import segmentation_models_pytorch as s

    return s.UPerNet("resnet18", encoder_weights=None), (pictures(),), {"x": BATCH}


@model
def monai_unet() -> Built:
    from monai.networks.nets import UNet

    return UNet(3, 1, 2, (8, 16, 32), (2, 2)), (torch.randn(2, 1, 16, 16, 16),), {"x": BATCH}


@model
def monai_segresnet() -> Built:
    from monai.networks.nets import SegResNet

    return (
        SegResNet(spatial_dims=2, in_channels=1, out_channels=2, init_filters=8),
        (torch.randn(2, 1, 32, 32),),
        {"x": BATCH},
    )


@model
def monai_swinunetr() -> Built:
    from monai.networks.nets import SwinUNETR

    return (
        SwinUNETR(in_channels=1, out_channels=2, feature_size=12, spatial_dims=2),
        (torch.randn(2, 1, 64, 64),),
        {"x_in": BATCH},
    )


@model
def monai_unetr() -> Built:
    from monai.networks.nets import UNETR

    return (
        UNETR(
            in_channels=1,
            out_channels=2,
            img_size=(32, 32),
            feature_size=8,
            hidden_size=48,
            mlp_dim=64,
            num_heads=4,
            spatial_dims=2,
        ),
        (torch.randn(2, 1, 32, 32),),
        {"x_in": BATCH},
    )


@model
def monai_vit() -> Built:
    from monai.networks.nets import ViT

    return (
        ViT(
            in_channels=1,
            img_size=(32, 32),
            patch_size=(8, 8),
            hidden_size=48,
            mlp_dim=64,
            num_layers=2,
            num_heads=4,
            spatial_dims=2,
        ),
        (torch.randn(2, 1, 32, 32),),
        {"x": BATCH},
    )


@model
def monai_dynunet() -> Built:
    from monai.networks.nets import DynUNet

    return (
        DynUNet(2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2]),
        (torch.randn(2, 1, 32, 32),),
        {"x": BATCH},
    )


@model
def monai_attentionunet() -> Built:
    from monai.networks.nets import AttentionUnet

    return AttentionUnet(2, 1, 2, (8, 16, 32), (2, 2)), (torch.randn(2, 1, 32, 32),), {"x": BATCH}


@model
def monai_densenet() -> Built:
    from monai.networks.nets import DenseNet121

    return DenseNet121(2, 1, 2), (torch.randn(2, 1, 64, 64),), {"x": BATCH}


@model
def monai_diffusion_unet() -> Built:
    from monai.networks.nets import DiffusionModelUNet as U

    return (
        U(
            spatial_dims=2,
            in_channels=1,
            out_channels=1,
            channels=(16, 32),
            attention_levels=(False, True),
            num_res_blocks=1,
            num_head_channels=8,
            norm_num_groups=8,
        ),
        (torch.randn(2, 1, 16, 16), torch.tensor([3, 7])),
        {"x": BATCH, "timesteps": BATCH},
    )


@model
def vit_pytorch_vit() -> Built:
    from vit_pytorch import ViT

    return (
        ViT(image_size=64, patch_size=16, num_classes=10, dim=64, depth=2, heads=4, mlp_dim=64),
        (pictures(),),
        {"img": BATCH},
    )


@model
def vit_pytorch_simple() -> Built:
    from vit_pytorch import SimpleViT

    return (
        SimpleViT(
            image_size=64, patch_size=16, num_classes=10, dim=64, depth=2, heads=4, mlp_dim=64
        ),
        (pictures(),),
        {"img": BATCH},
    )


@model
def vit_pytorch_t2t() -> Built:
    from vit_pytorch.t2t import T2TViT

    return (
        T2TViT(
            dim=64,
            image_size=64,
            depth=2,
            heads=4,
            mlp_dim=64,
            num_classes=10,
            t2t_layers=((7, 4), (3, 2)),
        ),
        (pictures(),),
        {"img": BATCH},
    )


@model
def vit_pytorch_cct() -> Built:
    from vit_pytorch.cct import CCT

    return (
        CCT(
            img_size=(64, 64),
            embedding_dim=64,
            n_conv_layers=2,
            num_layers=2,
            num_heads=4,
            num_classes=10,
        ),
        (pictures(),),
        {"x": BATCH},
    )


@model
def vit_pytorch_levit() -> Built:
    from vit_pytorch.levit import LeViT

    return (
        LeViT(
            image_size=64, num_classes=10, stages=2, dim=(32, 64), depth=1, heads=(2, 4), mlp_mult=2
        ),
        (pictures(),),
        {"img": BATCH},
    )


@model
def vit_pytorch_cvt() -> Built:
    from vit_pytorch.cvt import CvT

    return CvT(num_classes=10), (pictures(),), {"x": BATCH}


@model
def vit_pytorch_nest() -> Built:
    from vit_pytorch.nest import NesT

    return (
        NesT(
            image_size=64,
            patch_size=4,
            dim=32,
            heads=2,
            num_hierarchies=3,
            block_repeats=(1, 1, 1),
            num_classes=10,
        ),
        (pictures(),),
        {"img": BATCH},
    )


@model
def vit_pytorch_maxvit() -> Built:
    from vit_pytorch.max_vit import MaxViT

    return (
        MaxViT(num_classes=10, dim=32, dim_conv_stem=16, depth=(1, 1), dim_head=16, window_size=4),
        (pictures(),),
        {"x": BATCH},
    )


@model
def vit_pytorch_mobilevit() -> Built:
    from vit_pytorch.mobile_vit import MobileViT

    return (
        MobileViT(
            image_size=(64, 64),
            dims=[32, 48, 64],
            channels=[8, 8, 16, 16, 24, 24, 32, 32, 48, 48, 64],
            num_classes=10,
        ),
        (pictures(),),
        {"x": BATCH},
    )


@model
def vit_pytorch_navit() -> Built:
    from vit_pytorch.na_vit import NaViT

    v = NaViT(image_size=64, patch_size=16, num_classes=10, dim=64, depth=2, heads=4, mlp_dim=64)
    return v, ([[torch.randn(3, 32, 64), torch.randn(3, 64, 32)], [torch.randn(3, 64, 64)]],), {}


@model
def efficientnet_pytorch() -> Built:
    from efficientnet_pytorch import EfficientNet as E

    return E.from_name("efficientnet-b0", num_classes=10), (pictures(),), {"inputs": BATCH}


@model
def facenet_pytorch() -> Built:
    from facenet_pytorch import InceptionResnetV1 as I

    return I(pretrained=None, classify=False), (pictures(2, 3, 96),), {"x": BATCH}


@model
def ultralytics_yolov8() -> Built:
    from ultralytics.nn.tasks import DetectionModel as D

    return D("yolov8n.yaml", verbose=False), (pictures(),), {"x": BATCH}


@model
def ultralytics_yolo11() -> Built:
    from ultralytics.nn.tasks import DetectionModel as D

    return (
        D("yolo11n.yaml", verbose=False),
        (pictures(),),
        {"x": {0: "batch", 2: "h%32", 3: "w%32"}},
    )


@model
def ultralytics_yolov8_seg() -> Built:
    from ultralytics.nn.tasks import SegmentationModel as D

    return D("yolov8n-seg.yaml", verbose=False), (pictures(),), {"x": BATCH}


@model
def ultralytics_rtdetr() -> Built:
    from ultralytics.nn.tasks import RTDETRDetectionModel as D

    return D("rtdetr-l.yaml", verbose=False), (pictures(2, 3, 128),), {"x": BATCH}


@model
def effdet_d0() -> Built:
    from effdet import EfficientDet as E
    from effdet import get_efficientdet_config as g

    c = g("tf_efficientdet_d0")
    c.image_size = (128, 128)
    return E(c, pretrained_backbone=False), (pictures(2, 3, 128),), {"x": BATCH}


@model
def kornia_harris() -> Built:
    import kornia

    class Wrapped(nn.Module):
        def forward(self, x):
            return kornia.feature.harris_response(x)

    return Wrapped(), (torch.rand(2, 1, 16, 16),), {"x": {0: "b", 2: "h", 3: "w"}}


@model
def kornia_canny() -> Built:
    import kornia

    return kornia.filters.Canny(), (torch.rand(2, 3, 16, 16),), {"input": {0: "b"}}


@model
def kornia_hardnet() -> Built:
    import kornia

    return kornia.feature.HardNet(False), (torch.rand(2, 1, 32, 32),), {"input": BATCH}


@model
def kornia_sosnet() -> Built:
    import kornia

    return kornia.feature.SOSNet(False), (torch.rand(2, 1, 32, 32),), {"input": BATCH}


@model
def kornia_aug() -> Built:
    import kornia

    class Wrapped(nn.Module):
        def forward(self, x):
            return kornia.enhance.equalize_clahe(x, grid_size=(4, 4))

    return Wrapped(), (torch.rand(2, 1, 32, 32),), {"x": {0: "b"}}


@model
def kornia_warp() -> Built:
    import kornia

    class Wrapped(nn.Module):
        def forward(self, x, a):
            return kornia.geometry.transform.rotate(x, a)

    return (
        Wrapped(),
        (torch.rand(2, 3, 16, 16), torch.tensor([30.0, 60.0])),
        {"x": BATCH, "a": BATCH},
    )


@model
def kornia_hsv() -> Built:
    import kornia

    class Wrapped(nn.Module):
        def forward(self, x):
            return kornia.color.hsv_to_rgb(kornia.color.rgb_to_hsv(x)), kornia.color.rgb_to_lab(x)

    return Wrapped(), (torch.rand(2, 3, 16, 16),), {"x": {0: "b", 2: "h", 3: "w"}}


@model
def kornia_ssim() -> Built:
    import kornia

    class Wrapped(nn.Module):
        def forward(self, x, y):
            return kornia.metrics.ssim(x, y, 5)

    return (
        Wrapped(),
        (torch.rand(2, 3, 16, 16), torch.rand(2, 3, 16, 16)),
        {"x": {0: "b", 2: "h", 3: "w"}, "y": {0: "b", 2: "h", 3: "w"}},
    )


@model
def kornia_disk() -> Built:
    import kornia

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = kornia.feature.DISK()

        def forward(self, x):
            return self.m.heatmap_and_dense_descriptors(x)

    return Wrapped(), (torch.rand(2, 3, 32, 32),), {"x": BATCH}

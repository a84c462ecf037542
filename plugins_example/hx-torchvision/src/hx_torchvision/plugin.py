"""Hooks of this pack, which hx calls."""

HX_API = 1


def hx_converters():
    return [
        f"hx_torchvision.{part}" for part in ("suppression", "regions", "deformable", "detection")
    ]

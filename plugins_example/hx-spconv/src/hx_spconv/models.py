"""`hx export spconv:centerpoint`: backbones for point clouds by name, with random weights."""


def load(name):
    from hx_spconv import backbones

    return getattr(backbones, name)()


def names():
    return ["centerpoint", "voxelnext", "unet"]

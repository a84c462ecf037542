"""`hx export spconv:centerpoint`: backbones of 3D detection by name, with random weights."""


def load(name):
    from hx_spconv import backbones

    return getattr(backbones, name)()


def names():
    return ["centerpoint", "voxelnext"]

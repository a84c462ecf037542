"""`hx export spconv:centerpoint`: backbones for point clouds by name, with random weights."""


def load(name):
    """The model and a point cloud, the same at every call."""
    import torch

    from hx_spconv import backbones

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return getattr(backbones, name)()


def names():
    return ["centerpoint", "voxelnext", "unet"]

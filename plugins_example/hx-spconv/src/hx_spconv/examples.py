"""Point clouds, and the calls from which the tests of the converters are made."""

from hx import case
from hx.lazy import lazy, torch

spconv = lazy("spconv.pytorch")


def points(count, shape, batch=1, seed=0):
    """(batch, z, y, x) of as many voxels, near each other, as the surfaces of a scene are."""
    random = torch.Generator().manual_seed(seed)
    size = torch.tensor(shape)
    found = torch.empty(0, 4, dtype=torch.int64)
    while len(found) < count:
        centre = torch.rand(1, 3, generator=random) * size
        spread = torch.randn(count // 8 + 2, 3, generator=random) * torch.tensor([1.0, 4.0, 4.0])
        at = (centre + spread).long()
        at = at[((at >= 0) & (at < size)).all(1)]
        scene = torch.randint(0, batch, (len(at), 1), generator=random)
        found = torch.cat([found, torch.cat([scene, at], 1)]).unique(dim=0)
    return found[torch.randperm(len(found), generator=random)[:count]].int()


def cloud():
    """Some points in two scenes, as spconv has them."""
    return spconv.SparseConvTensor(torch.randn(60, 4), points(60, [6, 7, 8], 2), [6, 7, 8], 2)


def convolutions(pairs, inside):
    """Submanifold, strided and transposed, with the nodes that are expected of the first two."""
    strided = {"stride": 2, "padding": 1, "bias": False}
    return [
        case(lambda: cloud(), init=(3, 4, 5, 3), init_kwargs={"subm": True, "bias": False},
             name="submanifold", expect=pairs + inside),
        case(lambda: cloud(), init=(3, 4, 5, 3), init_kwargs=strided, name="strided",
             expect=inside),
        case(lambda: cloud(), init=(3, 4, 5, 3), init_kwargs=strided | {"transposed": True},
             name="transposed", expect=inside),
    ]  # fmt: skip


def pools(expect):
    return [case(lambda: cloud(), init=(3, 2, 2), expect=expect)]


def layouts(expect):
    return [case(lambda: cloud(), expect=expect), case(lambda: cloud(), channels_first=False)]


def sequences():
    """Of layers that this pack converts: nothing else is at hand when the case is run."""
    pool = [lambda: spconv.SparseMaxPool3d(2, 2), lambda: spconv.SparseMaxPool3d(3, 2, 1)]
    return [case(lambda: cloud(), init=pool)]


def fields():
    return [case("float32[batch,5,6,3]", expect=["NonZero"]), case("float32[2,d,h,w,3]")]

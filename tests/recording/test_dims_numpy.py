"""Sizes that go through numpy and through what every number of Python has."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch

import hx

SIZES = [{"n": 1}, {"n": 4}, {"n": 7}]


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * int(np.ceil(x.shape[0] / 2)),
        lambda x: x * np.ceil(x.shape[0] / 2).astype(int),
        lambda x: x * np.floor(x.shape[0] / 3).astype("int64").item(),
        lambda x: x / np.sqrt(x.shape[0]),
        lambda x: x * np.maximum(x.shape[0], 3) + np.minimum(5, x.shape[0]),
        lambda x: x.repeat(int(np.rint(np.sqrt(x.shape[0] * 16))), 1),
        lambda x: x * (x.shape[0] * np.float32(2)),
        lambda x: x[: int(np.round(x.shape[0] / 2))],
        lambda x: x * int(np.clip(x.shape[0] // 2, 1, 3)),
        lambda x: x[: int(np.ceil(np.log2(x.shape[0] + 1)))] + np.exp(np.log1p(x.shape[0] / 4)),
        lambda x: x * x.shape[0].real + x.shape[0].numerator,
        lambda x: x * x.shape[0].as_integer_ratio()[0] + (x.shape[0] / 2).real,
    ],
    ids=[
        "ceil",
        "astype",
        "item",
        "sqrt",
        "most",
        "rint",
        "float32",
        "round",
        "clip",
        "log",
        "real",
        "ratio",
    ],
)
def test_sizes_stay_sizes(proved, model):
    program = proved(model, torch.randn(3, 4), dynamic={"x": {0: "n"}}, sizes=SIZES)
    assert not program.report.escapes


OF_A_SIZE = [
    getattr(library, name)
    for library in (math, np)
    for name in "exp exp2 expm1 sin cos tan sinh cosh tanh log1p atan arctan cbrt erf".split()
    if hasattr(library, name)  # math's exp2 is of Python 3.11
]


@pytest.mark.parametrize("function", OF_A_SIZE)
def test_functions_of_a_size(proved, function):
    library, name = (np if isinstance(function, np.ufunc) else math), function.__name__
    program = proved(
        lambda x: x * float(getattr(library, name)(x.shape[0] / 64)) - getattr(library, name)(1),
        torch.randn(3, 4),
        dynamic={"x": {0: "n"}},
        sizes=SIZES,
    )
    assert not program.report.escapes and not program.report.notes


@pytest.mark.parametrize(
    "function",
    [
        lambda n: math.hypot(n, 3),
        lambda n: math.fmod(n, 2.5),
        lambda n: math.degrees(n) + math.radians(n),
        lambda n: math.atan2(n, 4) + math.atan2(n - 20, 3) + np.arctan2(n, -2.5),
        lambda n: math.asin(1 / n) + math.acos(1 / n) + math.erfc(n / 9),
        lambda n: math.asinh(n) + math.acosh(n) + math.atanh(1 / (n + 1)),
        lambda n: int(math.cbrt(n**3)) if hasattr(math, "cbrt") else n,
        lambda n: pow(2, n, 7) + pow(-3, n, 12) + pow(2, n // 2, 48),
        lambda n: np.hypot(n, 2.0) + np.deg2rad(n) * np.rad2deg(n),
        lambda n: math.exp2(-n) if hasattr(math, "exp2") else 2.0**-n,
    ],
)
def test_other_functions_of_a_size(proved, function):
    program = proved(
        lambda x: x * function(x.shape[0]), torch.randn(3, 4), dynamic={"x": {0: "n"}}, sizes=SIZES
    )
    assert not program.report.escapes and not program.report.notes


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (lambda x: x * float(np.arcsinh(x.shape[0])), "numpy.arcsinh(n)"),
        (lambda x: x * np.add.reduce([x.shape[0], 1]), "int(n)"),
        (lambda x: x * round(x.shape[0] / 2, -1), "round("),
        (lambda x: x * x.shape[0].to_bytes(2, "big")[1], "to_bytes"),
        (lambda x: x * pickle.loads(pickle.dumps(x.shape[0])), "n is pickled"),
        (lambda x: x * float((x.shape[0] / 2).astype("float32")), "astype(float32)"),
        (lambda x: x[np.geomspace(1, x.shape[0] / 2, 2).astype(int)], "numpy.geomspace"),
        (lambda x: x * float(np.array(x.shape[0] / 3)), "float(("),
        (lambda x: x * float(np.mean([x.shape[0] / 3, 1.0])), "float(("),
        (lambda x: x * int(np.stack([x.shape[0], 2])[0]), "numpy.stack(n, ...)"),
        (lambda x: x * int(np.where(True, x.shape[0], 2)), "numpy.where(..., n, ...)"),
    ],
    ids=[
        "sin",
        "reduce",
        "round",
        "bytes",
        "pickle",
        "float32",
        "geomspace",
        "array",
        "mean",
        "stack",
        "where",
    ],
)
def test_what_becomes_a_plain_number_is_told(model, told):
    escapes = hx.scan(model, torch.randn(3, 4), dynamic={"x": {0: "n"}}).escapes
    assert any(told in escape.detail for escape in escapes)


def test_tens_are_rounded_as_python_rounds_them():
    program = hx.export(lambda x: x * round(x.shape[0], -1), torch.randn(16, 4), verify=False)
    assert math.isclose(program.run(torch.ones(16, 4))[0, 0], 20)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x[:, : 2 + int(np.arcsinh(x.shape[1] / 1000) * 16)],
        lambda x: x[:, np.geomspace(1, 1 + x.shape[1] / 64, 3).astype(int)],
        lambda x: x * int(np.frexp(float(x.shape[1]))[1]),
    ],
    ids=["arcsinh", "geomspace", "frexp"],
)
def test_a_number_that_changes_far_off_only_is_found_there(model):
    """Sizes close by give the same whole number: the proof goes to where they do not."""
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(model, torch.randn(2, 160, 3), dynamic=[{1: "t>=130"}])
    line = model.__code__.co_firstlineno
    assert f"{__file__}:{line}" in str(caught.value)
    assert "no multiples" not in str(caught.value)  # they would not help


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.add(x, x, alpha=x.shape[0] / 3),
        lambda x: torch.sub(x, x, alpha=x.shape[0] / 3),
        lambda x: torch.addcmul(x, x, x, value=x.shape[0] / 3),
        lambda x: torch.lerp(x, x * 2, 1 / x.shape[0]),
        lambda x: torch.nn.functional.softplus(x, beta=x.shape[0] / 3),
        lambda x: torch.addmm(x, x, x.mT @ x, beta=1 / x.shape[0], alpha=x.shape[0] / 3),
        lambda x: torch.baddbmm(x[None], x[None], x.mT @ x[None], beta=1, alpha=x.shape[0] / 3),
    ],
    ids=["add", "sub", "addcmul", "lerp", "softplus", "addmm", "baddbmm"],
)
def test_factors_that_follow_from_a_size(proved, model):
    """At the size of the recording, some of them are 1."""
    program = proved(model, torch.randn(3, 4), dynamic={"x": {0: "n"}}, sizes=SIZES)
    assert not program.report.escapes


def of_ends(x):
    experts = (x.sum(-1) > 0).long()
    ends = experts.bincount(minlength=2).cpu().numpy().cumsum(0)
    rows = x[experts.argsort(stable=True)]
    return torch.cat([rows[: ends[0]] * 2, rows[ends[0] : ends[1]] * 3])


def of_counts(x):
    experts = (x.sum(-1) > 0).long()
    rows, parts, start = x[experts.argsort(stable=True)], [], 0
    for i, n in enumerate(experts.bincount(minlength=2).numpy()):
        parts.append(rows[start : start + n] * (i + 2))
        start = start + n
    return torch.cat(parts)


def causal(x):
    n = x.size(0)
    mask = np.triu(np.ones((1, n, n)), k=1).astype("uint8")
    return x.sum(1) * (torch.from_numpy(mask) == 0)


def written(x):
    weights = np.zeros(x.size(0))
    weights[0] = 3.0
    return x * torch.from_numpy(weights)[:, None]


def other_dtype(x):
    return x * torch.from_numpy((np.arange(x.size(0)) + 1) * 2)[:, None]


def sines(x):
    places = np.arange(x.size(0), dtype=np.float32)
    turned = places[:, None] / np.power(10000, 2 * np.arange(2)[None, :] / 4)
    return x + torch.from_numpy(np.concatenate([np.sin(turned), np.cos(turned)], axis=1)).float()


def sines_of_places(x):
    """As vision transformers have them."""
    grid = np.meshgrid(np.arange(2, dtype=np.float32), np.arange(x.size(0), dtype=np.float32))
    places = np.stack(grid, axis=0).reshape([2, 1, x.size(0), 2])[1].reshape(-1)
    turned = np.einsum("m,d->md", places, 1.0 / 100 ** np.array([0.0, 0.5]))
    table = torch.from_numpy(np.concatenate([np.sin(turned), np.cos(turned)], 1)).float()
    return x[:, None] + table.view(x.size(0), 2, 4)


def distances(x):
    places = np.stack(np.meshgrid(np.arange(2), np.arange(x.size(0))), -1).reshape(-1, 2)
    apart = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1)) / places.max()
    return x.repeat(2, 1).T @ torch.from_numpy(apart).float()


def written_in_place(x):
    steps = np.arange(x.size(0), dtype=np.float64)
    steps /= x.size(0) / 2.0
    steps[::2] = steps[::2] * 3
    return x * torch.from_numpy(steps)[:, None]


def anchors(x):
    """As detectors have them: how many cells there are is asked of an array of sizes."""
    cells = (np.array(x.shape[:2]) + 3) // 4
    across = (np.arange(0, cells[1]) + 0.5) * 4
    down = (np.arange(0, cells[0]) + 0.5) * 4
    across, down = np.meshgrid(across, down)
    shifts = np.vstack((across.ravel(), down.ravel())).transpose()
    each, kinds = np.array([[1.0, 2.0], [3.0, 4.0]]), shifts.shape[0]
    placed = each.reshape((1, 2, 2)) + shifts.reshape((1, kinds, 2)).transpose((1, 0, 2))
    found = np.append(np.zeros((0, 2)), placed.reshape((kinds * 2, 2)), axis=0)
    return torch.from_numpy(found.astype(np.float32)) * x.sum()


def pixels(x):
    grid = np.meshgrid(range(x.shape[1]), range(x.shape[0]), indexing="xy")
    return x * torch.from_numpy(np.stack(grid, axis=0).astype(np.float32))


def empty_first(x):
    table = np.empty((x.shape[0], 2), dtype=np.float32)
    table[:, 0], table[:, 1] = np.arange(x.shape[0]), 1
    return x[:, :2] * torch.from_numpy(table)


@pytest.mark.parametrize(
    "model",
    [
        anchors,
        pixels,
        empty_first,
        lambda x: x.sum() * torch.from_numpy((np.array(x.shape) + 3) // 4),
        lambda x: x.new_zeros((np.ceil(np.array(x.shape[:2]) / 4).astype(int)).tolist()) + x.sum(),
        lambda x: x[: (np.array(x.shape[:2]) * 0.75).round().astype(np.int64)[0]],
        lambda x: x.sum() * torch.tensor(np.asarray([x.shape[0], 1, x.shape[0] / 2], np.float32)),
        lambda x: x * float(64 / np.max([x.shape[0], 8])) + np.min(x.shape),
        lambda x: x * torch.from_numpy(np.mgrid[: x.shape[0], : x.shape[1]].astype(np.float32)),
        lambda x: x * torch.from_numpy(np.mgrid[0 : x.shape[0] : 1])[:, None],
        lambda x: x * torch.from_numpy(sum(np.ogrid[: x.shape[0], 0 : x.shape[1]])),
        lambda x: x * torch.from_numpy(np.indices(x.shape)),
        lambda x: x.sum() * torch.from_numpy(np.tile(np.array([[1.0, 2.0]]), (x.shape[0], 1))),
        lambda x: x.sum() * torch.from_numpy(np.repeat(np.array([1.0, 2.0]), x.shape[0])),
        lambda x: x * torch.from_numpy(np.broadcast_to(np.arange(4.0), x.shape).copy()),
        lambda x: x.T @ torch.from_numpy(1 - np.tri(x.shape[0], dtype=np.float32)),
        lambda x: x * torch.from_numpy(np.arange(x.shape[0] * 1.0)[:, None] @ np.ones((1, 4))),
        lambda x: x[:, :2] * torch.from_numpy(np.column_stack([np.arange(x.shape[0])] * 2)),
        lambda x: x.repeat(2, 1)[np.hstack([np.arange(x.shape[0])] * 2)],
    ],
    ids=[
        "anchors",
        "pixels",
        "empty first",
        "array of a shape",
        "list of an array",
        "rounded",
        "of several kinds",
        "largest",
        "grid",
        "one step after the other",
        "open grid",
        "indices",
        "tiled",
        "repeated",
        "broadcast",
        "triangle",
        "product",
        "columns",
        "in a row",
    ],
)
def test_arrays_made_of_sizes_are_followed(proved, model):
    program = proved(
        model, torch.randn(12, 4), dynamic={"x": {0: "n"}}, sizes=[{"n": 5}, {"n": 17}]
    )
    assert not {e.kind for e in program.report.escapes} & {"from_numpy", "int", "float", "range"}


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "model",
    [
        of_ends,
        of_counts,
        causal,
        written,
        other_dtype,
        lambda x: x * torch.tensor(np.arange(x.size(0)))[:, None],
        lambda x: x * torch.from_numpy(np.full((x.size(0), 4), 7)),
        lambda x: x * torch.as_tensor(np.arange(x.size(0)).astype("float32"))[:, None],
        lambda x: x * torch.from_numpy(np.arange(x.size(0)) / 3.0)[:, None],
        lambda x: x[np.array(np.arange(x.size(0)) + 0.0, dtype="int32")],
        lambda x: x[np.asarray(np.arange(x.size(0)) + 0.0, "int64")],
        lambda x: x[np.array(np.arange(x.size(0)), copy=True)],
        lambda x: x[torch.as_tensor(np.arange(x.size(0))[::-2].copy())],
        lambda x: x[np.clip(np.arange(-3, x.size(0) + 3), 0, x.size(0) - 1)],
        lambda x: x[np.fmod(np.arange(x.size(0) + 6), x.size(0))],
        lambda x: x[np.pad(np.arange(x.size(0)), (2, 1), mode="edge")],
        lambda x: x * torch.from_numpy(np.pad(np.arange(x.size(0))[1:], (1, 0)))[:, None],
        lambda x: x * torch.from_numpy(np.linspace(-1, 1, num=x.size(0), dtype="float32"))[:, None],
        lambda x: x[np.linspace(0, x.shape[0] - 1, 4).astype(int)],
        sines,
        sines_of_places,
        distances,
        written_in_place,
    ],
    ids=[
        "ends",
        "counts",
        "causal",
        "written",
        "other dtype",
        "tensor",
        "full",
        "astype",
        "divided",
        "array",
        "as array",
        "copied",
        "backwards",
        "clipped",
        "in a circle",
        "padded at its ends",
        "padded",
        "evenly",
        "at even places",
        "sines",
        "sines of places",
        "distances",
        "in place",
    ],
)
def test_arrays_that_torch_makes_as_well_are_followed(proved, model, dynamic):
    sizes = [{"n": 5}, {"n": 17}] if dynamic else []
    program = proved(model, torch.randn(12, 4), dynamic=dynamic, sizes=sizes)
    assert not {e.kind for e in program.report.escapes} & {"from_numpy", "branch", "int"}


def test_an_index_of_numpys_is_no_number_that_leaves_the_graph(proved):
    def turned(x):
        return x[np.arange(x.size(0))[::-1].copy()]

    assert not proved(turned, torch.randn(12, 4), {"x": {0: "n"}}, [{"n": 5}]).report.escapes


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * torch.from_numpy(np.cbrt(np.arange(x.size(0))))[:, None],
        lambda x: x * torch.from_numpy(np.sinc(np.arange(x.size(0)) / 3))[:, None],
        lambda x: (
            x * torch.from_numpy(np.cbrt(np.arange(x.size(0))) + np.arange(x.size(0)))[:, None]
        ),
    ],
    ids=["root", "sine", "root of a sum"],
)
def test_arrays_of_other_operations_are_told_of_and_refused(model):
    with pytest.raises(hx.VerificationError, match="from_numpy"):
        hx.export(model, (torch.randn(12, 4),), dynamic={"x": {0: "n"}}, input_names=["x"])


def masked(x, lengths):
    mask = np.zeros(x.shape[:2], dtype=np.float32)
    for i, n in enumerate(lengths.cpu().numpy()):
        mask[i, :n] = 1
    return x * torch.from_numpy(mask)[..., None]


def averaged(x, lengths):
    return torch.stack([x[i, :n].mean(0) for i, n in enumerate(lengths.numpy().tolist())])


def longest_first(x, lengths):
    order = np.argsort(-lengths.numpy())
    back = order.argsort()
    return x[order], x[order][back], torch.from_numpy(np.sort(lengths.numpy())[::-1].copy())


def begun(x, lengths):
    begins = np.concatenate([[0], np.cumsum(lengths.numpy())[:-1]])
    return x.flatten(0, 1)[begins]


@pytest.mark.parametrize(
    "model", [masked, averaged, longest_first, begun], ids=lambda f: f.__name__
)
def test_lengths_are_gone_over_and_sorted_as_arrays(model):
    dynamic = {"x": {0: "b", 1: "t"}, "lengths": {0: "b"}}
    given = torch.randn(3, 8, 2), torch.tensor([5, 8, 2])
    program = hx.export(model, given, dynamic=dynamic)
    for lengths in ([1], [3, 7, 9, 4, 1], [6, 2]):
        x, lengths = torch.randn(len(lengths), 9, 2), torch.tensor(lengths)
        torch.testing.assert_close(program.run(x, lengths), model(x, lengths))


@pytest.mark.parametrize(
    "of",
    [
        lambda a: np.argmax(a, axis=-1), lambda a: a.argmin(), lambda a: a.argmax(0),
        lambda a: np.any(a > 1, axis=1), lambda a: (a > 0).all(-1), lambda a: np.diff(a, axis=0),
        lambda a: np.roll(a, 1, axis=0), lambda a: np.flip(a, 0).copy(), lambda a: np.sort(a, 0),
        lambda a: np.hstack([a, a * 2]), lambda a: np.vstack([a, a * 2]),
    ],
)  # fmt: skip
def test_what_is_found_in_an_array_is_found_in_the_graph(of, proved):
    def model(x):
        return torch.as_tensor(of(x.detach().cpu().numpy())) + x.sum()

    proved(model, torch.randn(6, 4), dynamic={"x": {0: "n"}}, sizes=SIZES)


@pytest.mark.parametrize(
    "grid",
    [
        lambda n, m: np.mgrid[:n, 0:m][1] + np.indices((n, m))[0],
        lambda n, m: sum(np.ogrid[1 : n + 1, 0 : 2 * m : 2]),
        lambda n, m: np.mgrid[0:n].astype("float32")[:, None] / 2 + np.mgrid[0:1:4j][:m],
        lambda n, m: sum(np.meshgrid(np.arange(m), np.arange(n), sparse=True)),
    ],
)
def test_grids_are_as_large_as_sizes_say(grid, proved):
    def model(x):
        return x + torch.from_numpy(grid(*x.shape))

    program = proved(model, torch.randn(6, 4), dynamic={"x": {0: "n"}}, sizes=SIZES)
    assert not program.report.escapes


WEIGHTS = np.array([1, 2, 3, 4])


@pytest.mark.parametrize(
    "numbers",
    [
        lambda n: n * WEIGHTS,
        lambda n: WEIGHTS * n,
        lambda n: n // WEIGHTS,
        lambda n: n - WEIGHTS,
        lambda n: n % WEIGHTS,
        lambda n: (n / 3) ** (WEIGHTS / 4),
        lambda n: (n < WEIGHTS * 2) * 1,
        lambda n: n + np.array([3]),
        lambda n: n // (WEIGHTS + np.arange(n)[:1]),
        lambda n: np.full(4, 2.0) ** (n / 4),
    ],
    ids=["times", "by", "floor", "less", "left over", "power", "compared", "one", "both", "raised"],
)
def test_sizes_beside_arrays(proved, numbers):
    def model(x):
        return x * torch.from_numpy(numbers(x.shape[0]))

    program = proved(model, torch.randn(3, 4), dynamic={"x": {0: "n"}}, sizes=SIZES)
    assert not program.report.escapes


def test_a_number_that_is_written_through_an_array_is_written_to_the_tensor(proved):
    def model(x):
        y = x * 1
        y.numpy()[0, 1] = 5
        return y + 1

    proved(model, torch.randn(12, 4), dynamic={"x": {0: "n"}}, sizes=[{"n": 5}])


@pytest.mark.parametrize("seed", range(4))
def test_sums_are_followed_whatever_their_last_digits(seed):
    """The two libraries add in another order."""

    def centred(x):
        return (x - float(x.numpy().mean())) * float(np.sum(x.numpy() ** 2))

    torch.manual_seed(seed)
    program = hx.export(centred, torch.randn(7, 9), dynamic={"x": {0: "n"}})
    for n in (7, 3, 20):
        x = torch.randn(n, 9)
        torch.testing.assert_close(program.run(x), centred(x), rtol=1e-4, atol=1e-5)

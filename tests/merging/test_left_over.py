"""Models that pad where a size is no multiple of something: one way is right for all sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.shared.written import ops
from torch import nn

import hx
from hx.errors import VerificationError
from hx.ir.sizes import dims, remainders
from hx.ir.sizes.comparisons import SIGNS

PLANE = {"input": {2: "h", 3: "w"}}
SIZES = [{"h": h, "w": w} for h, w in ((16, 16), (17, 19), (32, 23), (51, 62), (49, 64))]


class Halving(nn.Module):
    """Half of each size, in four parts side by side; odd ones are padded by `pad`."""

    def __init__(self, pad):
        super().__init__()
        self.conv, self.mix = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(16, 4, 1)
        self.pad = pad

    def forward(self, x):
        x = self.pad(self.conv(x))
        b, c, h, w = x.shape
        x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4)
        return self.mix(x.reshape(b, c * 4, h // 2, w // 2))


def what_is_missing(x):
    h, w = x.shape[2:]
    if w % 2 != 0:
        x = F.pad(x, (0, 2 - w % 2))
    if h % 2 != 0:
        x = F.pad(x, (0, 0, 0, 2 - h % 2))
    return x


def what_is_over(x):
    h, w = x.shape[2:]
    if h % 2 == 1 or w % 2 == 1:
        x = F.pad(x, (0, w % 2, 0, h % 2))
    return x


def to_the_next(x):
    h, w = x.shape[2:]
    if h % 2 or w % 2:
        new = [(n // 2 + 1) * 2 if n % 2 else n for n in (h, w)]
        x = F.pad(x, (0, new[1] - w, 0, new[0] - h))
    return x


def computed_before(x):
    below, right = -x.shape[2] % 2, (2 - x.shape[3] % 2) % 2
    if below > 0 or right > 0:
        x = F.pad(x, (0, right, 0, below), value=1.0)
    return x


def cut(x):
    h, w = x.shape[2:]
    if h % 2:
        x = x[:, :, : h // 2 * 2]
    return x if w % 2 == 0 else x[..., : w - w % 2]


def through_tensors(x):
    h, w = (torch.tensor(n) for n in x.shape[2:])
    if h % 2 > 0:
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2))
    if w % torch.min(torch.tensor((2, 3))) != 0:
        x = F.pad(x, (0, x.shape[3] % 2))
    return x


@pytest.mark.parametrize(
    "pad", [what_is_missing, what_is_over, to_the_next, computed_before, cut, through_tensors]
)
@pytest.mark.parametrize("layers", [1, 3])
def test_padding_in_layers_is_one_way_for_all_sizes(proved, pad, layers):
    model = nn.Sequential(*[Halving(pad) for _ in range(layers)])
    program = proved(model, torch.randn(1, 4, 16, 16), PLANE, SIZES)
    assert "If" not in ops(program)
    assert "no size fitted" in program.report.notes[-1]


class Windows(nn.Module):
    """Means of windows, which are padded, and of all there is where that is smaller than one."""

    def __init__(self, over):
        super().__init__()
        self.over, self.mix = over, nn.Linear(4, 4)

    def forward(self, x):
        n = x.shape[1]
        over = n if n <= self.over else self.over
        missing = (over - n % over) % over
        if missing:
            x = F.pad(x, (0, 0, 0, missing))
        x = x.unflatten(1, (-1, over))
        x = (x + x.mean(2, keepdim=True)).flatten(1, 2)
        if missing > 0:
            x = x[:, :n]
        return self.mix(x)


def test_beside_what_pads_other_branches_go_both_ways(proved):
    model = nn.Sequential(Windows(4), Windows(8))
    sizes = [{"n": n} for n in (2, 3, 5, 8, 9, 11, 16, 23)]
    proved(model, torch.randn(1, 16, 4), {"input": {1: "n"}}, sizes)


class Chunks(nn.Module):
    """A state from chunk to chunk, the last one padded where it has to be."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x):
        n = x.shape[1]
        if n % 4:
            x = F.pad(x, (0, 0, 0, 4 - n % 4))
        state, outs = torch.zeros(x.shape[0], 4), []
        for chunk in x.split(4, dim=1):
            state = torch.tanh(self.mix(chunk.mean(1) + state))
            outs.append(chunk + state[:, None])
        return torch.cat(outs, 1)[:, :n]


@pytest.mark.parametrize("n", [9, 16])
def test_what_is_padded_for_a_loop_is_one_loop_for_all_sizes(proved, n):
    sizes = [{"b": 1, "n": n} for n in (1, 3, 4, 5, 8, 22, 40)]
    program = proved(Chunks(), torch.randn(2, n, 4), {"x": {0: "b", 1: "n"}}, sizes)
    assert "are a loop in the graph" in str(program.report)


class Checked(nn.Module):
    """Refuses what cannot be halved, and pads what cannot be divided by four."""

    def forward(self, x):
        n = x.shape[1]
        if n % 2 != 0:
            raise ValueError(f"{n} is odd")
        if n % 4 != 0:
            x = F.pad(x, (0, 4 - n % 4))
        return x.unflatten(1, (-1, 4)).sum(1) * x.mean(1, keepdim=True)


def test_a_model_that_raises_where_something_is_left_over_hears_the_truth_there(proved):
    proved(Checked(), torch.randn(2, 8), {"x": {1: "n"}}, [{"n": 10}, {"n": 12}, {"n": 18}])


class UNet(nn.Module):
    """What comes up is resized, or padded, to what was there, where that has another size."""

    def __init__(self, fit):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(4, 4, 3, 2, 1) for _ in range(3))
        self.up = nn.ModuleList(nn.ConvTranspose2d(4, 4, 2, 2) for _ in range(3))
        self.fit = fit

    def forward(self, x):
        kept = []
        for down in self.down:
            kept.append(x)
            x = down(x).relu()
        for up in self.up:
            x, other = up(x), kept.pop()
            x = self.fit(x, other) + other
        return x


def resized(x, other):
    if x.shape != other.shape:
        x = F.interpolate(x, size=other.shape[2:], mode="bilinear")
    return x


def padded(x, other):
    below, right = other.size(2) - x.size(2), other.size(3) - x.size(3)
    return x if below == 0 and right == 0 else F.pad(x, (0, right, 0, below))


def cut_to(x, other):
    for axis in (2, 3):
        if x.shape[axis] != other.shape[axis]:
            x = x.narrow(axis, 0, other.shape[axis])
    return x


@pytest.mark.parametrize("fit", [resized, padded, cut_to])
def test_what_is_made_as_large_as_something_else_is_one_way_for_all_sizes(proved, fit):
    program = proved(UNet(fit), torch.randn(1, 4, 16, 16), {"x": {2: "h", 3: "w"}}, SIZES)
    assert "If" not in ops(program)


def test_what_is_another_thing_for_equal_sizes_goes_both_ways(proved):
    def forward(x, y):
        if x.shape[1] == y.shape[1]:
            return x * y + 1
        return x.sum(1, keepdim=True) + y

    inputs = torch.randn(2, 8), torch.randn(2, 8)
    dynamic = {"x": {1: "n"}, "y": {1: "m"}}
    proved(forward, inputs, dynamic, [{"n": 5, "m": 5}, {"n": 6, "m": 8}, {"n": 8, "m": 12}])


def cut_unless_square(x):
    a, b = x.shape
    return x if a == b else x.narrow(0, 0, a - a % 4)


def cut_at_twelve(x):
    a, b = x.shape
    return x.narrow(1, 0, b // 2 * 2) if a == 12 else x


@pytest.mark.parametrize("model", [cut_unless_square, cut_at_twelve])
@pytest.mark.parametrize("shape", [(8, 12), (12, 12)])
def test_the_nearest_size_with_another_answer_may_show_nothing_of_it(proved, model, shape):
    """At (8, 8) nothing is left to be cut, nor is at (13, 12)."""
    sizes = [{"a": a, "b": b} for a, b in ((5, 5), (7, 7), (12, 9), (13, 9), (9, 13), (6, 6))]
    proved(model, torch.randn(shape), {"x": {0: "a", 1: "b"}}, sizes)


class Alternating(nn.Module):
    """What it does with odd sizes is nothing that it could do with even ones as well."""

    def forward(self, x):
        if x.shape[1] % 2 == 1:
            return x.exp()
        return x * 2


def test_what_is_no_padding_goes_both_ways(proved):
    program = proved(Alternating(), torch.randn(2, 8), {"x": {1: "n"}}, [{"n": 7}, {"n": 12}])
    assert "If" in ops(program)


@pytest.fixture
def known():
    w = dims.Dim.leaf("w", 0, 9)
    some = remainders.LeftOver()
    some.answered(dims.asked(SIGNS["!="], w % 4, 0), True)
    remainders.know(some)
    yield w
    remainders.know(None)


@pytest.mark.parametrize(
    "written, rounded",
    [
        (lambda w: 4 - w % 4, lambda w: -w % 4),
        (lambda w: w + 4 - w % 4, lambda w: w + -w % 4),
        (lambda w: w // 4 + 1, lambda w: (w + 3) // 4),
        (lambda w: (w // 4 + 1) * 4, lambda w: (w + 3) // 4 * 4),
        (lambda w: 2 * (4 - w % 4) + 3, lambda w: 2 * (-w % 4) + 3),
        (lambda w: -1 - w // 4, lambda w: -((w + 3) // 4)),
    ],
)
def test_what_is_missing_is_written_so_that_it_is_0_at_a_multiple(known, written, rounded):
    assert written(known).poly == rounded(known).poly
    assert int.__int__(written(known)) == written(9)


@pytest.mark.parametrize(
    "written", [lambda w: w % 4, lambda w: w - w % 4, lambda w: w // 4 * 4, lambda w: w // 4 - 1,
                lambda w: 5 - w % 5, lambda w: 3 - w % 4, lambda w: w % 4 + 4]
)  # fmt: skip
def test_what_is_right_at_a_multiple_as_it_is_stays(known, written):
    before = written(known).poly
    remainders.know(None)
    assert before == written(known).poly


def test_a_question_that_one_remainder_answers_alone_says_nothing_of_the_others():
    w = dims.Dim.leaf("w", 0, 9)
    for sign, number, says in (("!=", 0, True), ("==", 0, False), (">", 0, True), ("<", 1, False)):
        assert remainders.left_over(dims.asked(SIGNS[sign], w % 4, number))[1] is says
    assert remainders.left_over(dims.asked(SIGNS["=="], w % 2, 1))[1] is True
    assert remainders.left_over(dims.asked(SIGNS["=="], w % 4, 1)) is None
    assert remainders.left_over(dims.asked(SIGNS["<"], w % 4, 3)) is None
    assert remainders.left_over(dims.asked(SIGNS["!="], w, 0)) is None


def test_threads_do_not_know_of_each_other(known):
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append((4 - known % 4).poly))
    thread.start()
    thread.join()
    assert found[0] != (4 - known % 4).poly


def test_nothing_is_known_behind_an_export():
    model = nn.Sequential(Halving(what_is_missing))
    hx.export(model, torch.randn(1, 4, 16, 16), dynamic=PLANE)
    assert remainders.current() is None


def test_a_pairwise_sum_is_refused_in_time():
    """One that heard that something is always left over would pad for ever."""

    def halved(x):
        while x.shape[1] > 1:
            if x.shape[1] % 2:
                x = F.pad(x, (0, 1))
            x = x[:, ::2] + x[:, 1::2]
        return x[:, 0]

    with pytest.raises(VerificationError, match="depends on a size"):
        hx.export(halved, torch.randn(2, 5), dynamic={"x": {1: "n"}})

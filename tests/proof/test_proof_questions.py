"""Questions about sizes that are asked through tensors, of what is rounded, or of what only the run knows."""

from __future__ import annotations

import pytest
import torch
from across import exported, refused
from torch import nn
from torch.testing import assert_close

import hx
from hx.ir.input_grammar import Limits
from hx.ir.size_moves import Move

LIMIT = torch.tensor(30)
THROUGH = {
    "a buffer": lambda n: n > LIMIT,
    "a tensor of it": lambda n: torch.tensor(n) > 30,
    "a float": lambda n: torch.as_tensor(n) > torch.tensor(30.5),
    "not": lambda n: ~(torch.tensor([n]) <= LIMIT),
    "both": lambda n: (n > LIMIT) & (n < torch.tensor(10**6)),
    "either": lambda n: (n > LIMIT) | torch.tensor(n).eq(10**6),
}


@pytest.mark.parametrize("question", THROUGH.values(), ids=THROUGH)
def test_a_question_that_is_asked_through_a_tensor(question):
    def model(x):
        return x * 3 if question(x.shape[1]) else x

    program = exported(model, torch.randn(2, 9), effort="low")
    assert program.report.promised == {"s": "s<=30"}
    program = exported(model, torch.randn(2, 80), effort="low")
    assert program.report.promised["s"].startswith("s>=31")
    assert_close(program.run(x := torch.randn(3, 31)), x * 3)


def test_what_a_tensor_says_of_all_sizes_is_no_branch():
    program = exported(lambda x: x * 2 if x.shape[1] >= torch.tensor(0) else x, torch.randn(2, 9))
    assert not program.report.escapes and not program.report.promised


@pytest.mark.parametrize("kernel, stride, padding", [(4, 4, 0), (2, 5, 1), (3, 2, 1), (1, 3, 0)])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_sizes_that_are_rounded_up_are_followed(kernel, stride, padding, kind):
    pool = {"max": nn.MaxPool1d, "avg": nn.AvgPool1d}[kind](kernel, stride, padding, ceil_mode=True)

    def model(x):
        y = pool(x)
        return y * y.shape[2] + torch.arange(y.shape[2])

    program = exported(model, torch.randn(2, 3, 23), {"x": {2: "n"}})
    assert not program.report.escapes
    for n in range(max(kernel, 2), 40):
        assert_close(program.run(x := torch.randn(2, 3, n)), model(x))


class Kept(nn.Module):
    """A cache that grows, behind a stride: it is as large as it was for a few sizes more."""

    def __init__(self):
        super().__init__()
        self.places = torch.zeros(0)

    def forward(self, x):
        x = nn.functional.avg_pool1d(x, 4, ceil_mode=True)
        if x.shape[2] > self.places.shape[0]:
            self.places = torch.arange(x.shape[2]) * 1.0
        return x + self.places[: x.shape[2]]


def test_a_cache_behind_a_stride_is_no_constant():
    model = Kept()
    model(torch.randn(3, 4, 101))
    program = exported(model, torch.randn(3, 4, 101), {"x": {2: "n"}})
    for n in (50, 101, 104, 105, 152, 500):
        assert_close(program.run(x := torch.randn(3, 4, n)), model(x))


ENDS = {
    "a quarter, rounded up": lambda n: -(-n // 4),
    "a share": lambda n: int(n * 0.25),
    "rounded": lambda n: round(n / 4),
    "a root, level for many sizes": lambda n: int(n**0.5),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_where_a_cut_ends_is_followed(end):
    most = end(400)

    def model(x):
        y = x[:, : end(x.shape[1])]
        return y * 3 if y.shape[1] > most else y

    program = exported(model, torch.randn(2, 99), effort="low")
    promised = int(program.report.promised["s"].removeprefix("s<="))
    assert end(promised) == most < end(promised + 1)


def test_a_size_that_only_the_run_knows_is_tried_far_off():
    """How many there are follows from what is asked in a tensor: nobody knows where it is 30."""

    def model(x):
        y = x[:, torch.arange(x.shape[1])[torch.arange(x.shape[1]) % 4 == 0]]
        return y.sum() if y.shape[1] > 30 else y

    assert "s=203 inputs: wrong" in refused(model, torch.randn(2, 101))


class Padded(nn.Module):
    """To an even length, behind what has the length of its input by another reckoning."""

    def __init__(self):
        super().__init__()
        self.first, self.places = nn.Conv1d(1, 4, 10, 5), nn.Conv1d(4, 4, 16, padding=8)

    def forward(self, x):
        x = self.first(x[:, None])
        x = x + self.places(x)[:, :, :-1]
        more = x.shape[2] % 2
        if more == 0:
            return x * 2
        return nn.functional.pad(x, (0, more))[:, :, :-more] * 2


def test_lengths_of_two_reckonings_are_one_length():
    model = Padded().eval()
    program = exported(model, torch.randn(2, 800), {"x": {1: "t"}})
    for length in (300, 301, 305, 890, 895):
        with torch.no_grad():
            wanted = model(x := torch.randn(2, length))
        assert_close(program.run(x), wanted)


def same(x):
    """To half the size, rounded up: an odd one is filled up, an even one has nothing to fill."""
    n = x.shape[1]
    more = ((n + 1) // 2 - 1) * 2 + 2 - n
    if more == 0:
        return nn.functional.max_pool1d(x, 2, 2)
    return nn.functional.max_pool1d(nn.functional.pad(x, (0, more), value=-torch.inf), 2, 2)


@pytest.mark.parametrize("size", [20, 21])
def test_a_side_that_is_right_for_both_is_recorded(size):
    program = exported(same, torch.randn(2, size), {"x": {0: "b", 1: "n"}})
    for n in (8, 9, 33):
        assert_close(program.run(x := torch.randn(3, n)), same(x))


def test_no_hint_leaves_in_what_is_wrong():
    odd = refused(lambda x: x[0] if x.shape[0] % 2 else x, torch.randn(20, 3), {"x": {0: "n"}})
    assert "n%2 in place of n" in odd

    def other(x):
        return x[0] if x.shape[0] % 2 or x.shape[0] == 36 else x

    message = refused(other, torch.randn(20, 3), {"x": {0: "n"}})
    assert "n=36" in message and "in place of n" not in message


def test_a_branch_that_goes_the_same_way_where_the_file_is_wrong_is_not_blamed():
    def model(x, mask):
        if mask.shape[0] < x.shape[0] * 2:  # it always is, but for nothing
            mask = mask.repeat_interleave(2, 0)
        return mask.sum(0)[:3] + x.sum() * sum(map(int, str(x.shape[1])))

    dynamic = {"x": {0: "b", 1: "c"}, "mask": {0: "b"}}
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(model, (torch.randn(3, 4), torch.randn(3, 4)), dynamic=dynamic)
    assert "baked in at" in str(caught.value) and "b < 2*b" not in str(caught.value)


def test_a_size_of_which_only_one_works_is_to_be_fixed():
    def model(x):
        return x if x.shape[0] >= 3 else x[0]

    message = refused(model, torch.randn(3, 3), {"x": {0: "n<=3"}})
    assert "a size has to be fixed: leave n out of dynamic=; only n=3 works" in message
    assert "n>=3<=3" not in message and "in place of n" not in message


@pytest.mark.parametrize(
    ("limits", "single"),
    [((3, 3), 3), ((3, 4), None), ((4, 7, 4), 4), ((3,), None), ((5, 7, 4), None), ((0, 0), 0)],
)
def test_limits_know_the_only_size_within_them(limits, single):
    found = Limits(*limits)
    assert found.single == single
    move = Move({"n": 9}, {"n": found, "m": Limits(2)})
    ranges = [] if single is not None else [f"{found.written('n')} in place of n"]
    assert move.within == ", ".join([*ranges, "m>=2 in place of m"])
    told = "" if single is None else f"leave n out of dynamic=; only n={single} works"
    assert move.fixed == told
    assert single is None or found.briefly("n") == f"n={single}"

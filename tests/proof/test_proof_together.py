"""What a model asks of sizes is proved where its answers come together, and where that shows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import hx


def padded_up_to_a_bound(x):
    b = x.shape[1]
    if b < 16:  # the nearest size beyond is 16, which needs no padding either
        x = F.pad(x, (0, -b % 4))
    return x


def cut_where_two_answers_meet(x):
    a, b = x.shape
    if b > 5 and a == 6:
        x = x.narrow(1, 0, b - b % 2)  # of the recorded 12, nothing
    if x.shape[0] % 4 != 0:
        x = x.narrow(0, 0, a - a % 4)
    return x


def cut_of_what_was_cut(x):
    b = x.shape[1]
    if b % 4 > 0:
        x = x.narrow(1, 0, b - b % 2)
    a, b = x.shape
    if a == b:
        x = x.narrow(1, 0, b // 4 * 4)
    b = x.shape[1]
    x = x - x.mean(0, keepdim=True) if b < 5 else x.narrow(1, 0, b - b % 3)
    return x + x.amax(1, keepdim=True)


def exported(model, rows, columns, effort="normal"):
    dynamic = {"x": {0: "a", 1: "b"}}
    return hx.export(model, torch.rand(rows, columns), dynamic=dynamic, effort=effort)


@pytest.mark.parametrize(
    ("model", "rows", "columns", "promised"),
    [
        (padded_up_to_a_bound, 16, 8, {}),
        (cut_where_two_answers_meet, 8, 12, {}),
        (cut_of_what_was_cut, 8, 12, {}),
    ],
)
def test_whatever_sizes_come_together_the_file_is_right_where_it_says_so(
    model, rows, columns, promised
):
    program = exported(model, rows, columns)
    assert program.report.promised == promised
    compared = 0
    for a in (*range(1, 20), 33):
        for b in (*range(1, 20), 24):
            try:
                want = model(x := torch.rand(a, b))
            except (RuntimeError, IndexError):
                continue  # of no columns, there is no largest one
            try:
                got = program.run(x)
            except hx.UsageError as error:
                assert "and the file is right for" in str(error)
                continue
            assert_close(got, want)
            compared += 1
    assert compared > 100


def test_a_graph_that_takes_long_is_not_run_for_each_pair_of_answers():
    runs = []
    weight = torch.rand(512, 512)

    def heavy(x):
        runs.append(tuple(x.shape))
        a, b = x.shape[:2]
        for bound in (20, 30, 40, 50):
            x = x * 1.0 if a > bound or b > bound or a % 2 == 0 else x
        return x @ weight @ weight @ weight @ weight

    hx.export(heavy, torch.rand(9, 11, 512), dynamic={"x": {0: "a", 1: "b"}})
    few = len(runs)
    runs.clear()
    weight = torch.rand(4, 4)
    hx.export(heavy, torch.rand(9, 11, 4), dynamic={"x": {0: "a", 1: "b"}})
    assert few < len(runs)


def test_one_bound_is_tried_on_both_sides_and_no_more():
    def bounded(x):
        return x * 2 if x.shape[1] > 20 else x

    program = exported(bounded, 3, 9, "low")
    assert len([c for c in program.proof.cases if "values" not in c.name]) < 19


def test_sizes_that_are_read_from_inputs_do_not_become_more_than_there_is_room_for():
    """Larger numbers may lead elsewhere; of a size that is one of them, they make 400 GB here."""
    runs = []

    def resized(x, size):
        h, w = size.long()
        runs.append(int(h) * int(w))
        y = F.interpolate(x, size=(int(h), int(w)))
        return y if y.mean() > 0 else y * 2

    size = torch.tensor([2000.0, 3000.0])
    program = hx.export(resized, (torch.rand(1, 1, 8, 8), size))
    assert max(runs) < 10 * 2000 * 3000
    assert program.proof.ok


class AsTrained(nn.Module):
    """A table as it was trained where its size and form fit, and resized where they do not."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.patch, self.table = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 8, 4, 4))

    def forward(self, x):
        y = self.patch(x)
        w, h = x.shape[2:]
        if y.shape[2] * y.shape[3] == 16 and w == h:
            return y + self.table
        return y + F.interpolate(self.table, size=y.shape[2:], mode="bilinear") * 2


@pytest.mark.parametrize("size", [(24, 20), (32, 8), (16, 16)])
def test_an_answer_to_which_no_size_alone_leads(size):
    """With 5 columns no number of rows makes 16; and of those that make 16, few are squares."""
    model = AsTrained().eval()
    axes = {"x": {0: "b", 2: "h", 3: "w"}}
    program = hx.export(model, torch.randn(2, 3, *size), dynamic=axes)
    assert not program.report.promised
    for other in ((16, 16), (17, 16), (18, 18), (32, 8), (24, 24), (40, 12)):
        x = torch.randn(1, 3, *other)
        assert_close(program.run(x), model(x), msg=str(other), atol=1e-4, rtol=1e-4)

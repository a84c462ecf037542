"""Whole numbers beyond the recorded ones: the ends of tables and sizes, and columns of their own."""

from __future__ import annotations

import pytest
import torch
from tests.shared.proof_cases import names_of, with_converter
from torch import nn

import hx
from hx.errors import VerificationError


def first_rows_of(count):
    @hx.converter("torch.nn.functional.embedding", cases=[])
    def embedding(op, input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse):
        return op.Gather(weight, op.Min(input, op.constant(count - 1)))

    return embedding


def test_a_wrong_row_of_a_table_shows_that_no_recorded_number_picks():
    torch.manual_seed(0)
    x, dynamic = torch.tensor([[3, 17, 8]]), {"x": {1: "n"}}
    model = nn.Embedding(1500, 4)
    assert hx.export(model, x, dynamic=dynamic, input_names=["x"]).proof.ok
    for count in (18, 1499):
        with pytest.raises(VerificationError, match="other whole numbers in x"):
            packs = with_converter(first_rows_of(count))
            hx.export(model, x, dynamic=dynamic, input_names=["x"], packs=packs)


class Events(nn.Module):
    def __init__(self):
        super().__init__()
        self.kind, self.place = nn.Embedding(4, 3), nn.Embedding(60, 3)

    def forward(self, x):
        return self.kind(x[:, 0]) + self.place(x[:, 1]) * self.place(x[:, 2])


# In the second table, a row occurs twice, and no row of the third is like another.
TABLES = ([[1, 40, 17], [3, 12, 50]], [[1, 40, 17], [1, 40, 17], [3, 12, 50]],
          [[1, 40, 17], [2, 31, 8], [0, 7, 22], [3, 12, 50]])  # fmt: skip


@pytest.mark.parametrize("rows", TABLES)
def test_columns_with_a_meaning_of_their_own_are_tried_to_their_ends(rows):
    torch.manual_seed(0)
    x, dynamic = torch.tensor(rows), {"x": {0: "n"}}
    program = hx.export(Events(), x, dynamic=dynamic)
    assert {"fresh", "n=1", "other whole numbers in x"} < {*names_of(program)}
    for count in (3, 59):  # the last row of either table
        with pytest.raises(VerificationError):
            hx.export(Events(), x, dynamic=dynamic, packs=with_converter(first_rows_of(count)))


def picked(x, at):
    return x.gather(0, at)


@hx.converter("torch.Tensor.gather", cases=[])
def picked_from_the_first_rows(op, input, dim, index):
    return op.GatherElements(input, op.Min(index, op.constant(500)), axis=dim)


def test_numbers_that_a_size_ends_grow_with_it():
    x, at, dynamic = torch.randn(6), torch.tensor([1, 4, 2]), {"x": {0: "n"}, "at": {0: "m"}}
    assert not hx.export(picked, (x, at), dynamic=dynamic).report.promised
    packs = with_converter(picked_from_the_first_rows)
    program = hx.export(picked, (x, at), dynamic=dynamic, packs=packs)
    assert program.report.promised == {"n": "n<=501"}


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (lambda x: (1 << x) + 10**x, torch.tensor([1, 7, 3])),  # PyTorch promises nothing beyond 63
        (lambda x: x.to(torch.int8) // 3, torch.tensor([1, 7, 100])),
        (lambda x: (x // 3 + x % 5).float().sqrt(), torch.tensor([[4, 9, 17], [8, 2, 30]])),
    ],
)
def test_correct_files_stay_right(model, x):
    program = hx.export(model, x, dynamic={"x": {0: "n"}}, input_names=["x"])
    assert program.proof.ok and not program.report.promised


def test_numbers_that_kernels_may_not_check_stay_within_the_recorded_ones():
    seen = []

    class Starts(torch.nn.Module):
        def forward(self, rows):
            seen.append(int(rows.max()))
            return torch.ops.aten._convert_indices_from_coo_to_csr(rows, 12)

    rows = torch.tensor([0, 0, 2, 5])
    hx.export(Starts(), rows, dynamic={"rows": {0: "n"}})
    assert max(seen) == 5

"""Bags of embeddings: of every length, none too, and as many as real tables have."""

import pytest
import torch
from torch.nn.functional import embedding_bag

import hx

LENGTHS = [[3], [0], [0, 0, 4], [1, 1, 1], [5, 0, 0, 7, 1, 0], [40, 3, 0, 64, 63, 65], [2] * 90]


def bags(lengths, last=False):
    starts = torch.tensor([0, *lengths]).cumsum(0)
    return torch.randint(0, 11, (sum(lengths),)), starts if last else starts[:-1]


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("padding", [None, -2])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_every_length(mode, last, padding, opset):
    table = torch.randn(11, 4)

    def model(x, at):
        return embedding_bag(x, table, at, mode=mode, include_last_offset=last, padding_idx=padding)

    # The proof makes bags of its own: PyTorch reads anywhere where the last one ends behind x.
    program = hx.export(model, bags([3, 4, 0, 6], last), None, opset=opset,
                        dynamic={"x": {0: "n"}, "at": {0: "b"}})  # fmt: skip
    assert program.proof.ok and not program.report.promised
    for lengths in LENGTHS:
        x = bags(lengths, last)
        torch.testing.assert_close(program.run(*x), model(*x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_shares_of_each_row(dtype):
    table = torch.randn(11, 4).to(dtype)

    def model(x, at, share):
        return embedding_bag(x, table, at, mode="sum", per_sample_weights=share)

    def inputs(lengths):
        return *bags(lengths), torch.randn(sum(lengths)).to(dtype)

    program = hx.export(model, inputs([3, 4, 0, 6]), None,
                        dynamic={"x": {0: "n"}, "at": {0: "b"}, "share": {0: "n"}})  # fmt: skip
    for lengths in LENGTHS:
        x = inputs(lengths)
        torch.testing.assert_close(program.run(*x), model(*x))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_what_is_not_in_a_bag_does_not_matter_to_it(mode):
    table = torch.randn(11, 4)
    table[1], table[2] = torch.inf, torch.nan

    def model(x, at):
        return embedding_bag(x, table, at, mode=mode, padding_idx=2)

    x = torch.tensor([3, 4, 1, 1, 5, 2, 6, 2, 7]), torch.tensor([0, 2, 4, 4, 5])
    program = hx.export(model, x, None, verify=False)
    torch.testing.assert_close(program.run(*x), model(*x))


def test_many_bags():
    """Every element against every bag would be 40 GB."""
    table = torch.randn(11, 4)

    def model(x, at):
        return embedding_bag(x, table, at, mode="sum")

    program = hx.export(model, bags([3, 4, 0, 6]), None, dynamic={"x": {0: "n"}, "at": {0: "b"}})
    x = bags([2] * 100_000)
    torch.testing.assert_close(program.run(*x), model(*x))


class Tables(torch.nn.Module):
    """A row of bags for each of several tables, as recommenders have them."""

    def __init__(self, mode):
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.EmbeddingBag(20, 4, mode=mode) for _ in range(3))

    def forward(self, x, at):
        return torch.cat([table(i, a) for table, i, a in zip(self.tables, x, at)], 1)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_several_tables_at_once(mode):
    x = torch.randint(0, 20, (3, 9))
    at = torch.tensor([[0, 3, 3, 7], [0, 1, 5, 6], [0, 2, 2, 2]])
    model = Tables(mode)
    program = hx.export(model, (x, at), dynamic={"x": {1: "n"}, "at": {1: "b"}})
    assert program.proof.ok and not program.report.promised
    x, at = torch.randint(0, 20, (3, 14)), torch.tensor([[0, 0], [0, 9], [0, 13]])
    torch.testing.assert_close(program.run(x, at), model(x, at))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("name", ["_embedding_bag", "_embedding_bag_forward_only"])
@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("last", [False, True])
def test_all_that_the_operator_returns(mode, name, padding, last):
    """What training asks for as well: the bag of each row, how long bags are, the largest rows."""
    table = torch.randn(11, 4)
    number = ["sum", "mean", "max"].index(mode)

    def model(x, at):
        bag = getattr(torch.ops.aten, name)
        return bag(table, x, at, False, number, False, None, last, padding)

    program = hx.export(model, bags([3, 4, 0, 6], last), None,
                        dynamic={"x": {0: "n"}, "at": {0: "b"}})  # fmt: skip
    for lengths in LENGTHS:
        x = bags(lengths, last)
        for found, wanted in zip(program.run(*x), model(*x)):
            torch.testing.assert_close(found, wanted)


def test_bags_of_a_program_that_torch_exported():
    model = torch.nn.EmbeddingBag(11, 4, mode="max").eval()
    x = bags([3, 4, 0, 6])
    exported = torch.export.export(model, x)
    for each in (exported, exported.run_decompositions()):
        program = hx.export(each.module(), x, None)
        torch.testing.assert_close(program.run(*x), model(*x))


def test_rows_that_are_shortened_first_are_as_they_were_behind_it():
    model = torch.nn.EmbeddingBag(5, 3, max_norm=0.5).eval()
    before = model.weight.detach().clone()
    program = hx.export(model, torch.tensor([[0, 1], [2, 3]]), dynamic=[{0: "n"}])
    assert torch.equal(model.weight, before)
    x = torch.tensor([[4, 1], [0, 0], [3, 2]])
    torch.testing.assert_close(program.run(x), model(x))

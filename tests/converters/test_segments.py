"""Rows that stand side by side, reduced as lengths or offsets say, and the forms of sparse indices."""

import pytest
import torch

import hx

LENGTHS = [[3], [0], [0, 0, 4], [1, 1, 1], [5, 0, 0, 7, 1, 0], [40, 3, 0, 64, 63, 65], [2] * 90]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0, 2])
@pytest.mark.parametrize("given", ["lengths", "offsets"])
def test_segments_of_every_length(reduce, initial, given):
    def model(x, lengths):
        if given == "lengths":
            return torch.segment_reduce(x, reduce, lengths=lengths, unsafe=True, initial=initial)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        return torch.segment_reduce(x, reduce, offsets=offsets, initial=initial)

    def inputs(lengths):
        return torch.randn(sum(lengths), 3), torch.tensor(lengths)

    program = hx.export(model, inputs([3, 4, 0, 6]), None, verify=False,
                        dynamic={"x": {0: "n"}, "lengths": {0: "b"}})  # fmt: skip
    for lengths in LENGTHS:
        x = inputs(lengths)
        torch.testing.assert_close(program.run(*x), model(*x), equal_nan=True, rtol=1e-5, atol=1e-5)


def test_segments_of_more_axes_and_of_none():
    offsets = torch.tensor([0, 2, 2, 5])

    def model(x):
        flat = x[:, 0, 0]
        return [torch.segment_reduce(v, "max", offsets=offsets, axis=0) for v in (x, flat)]

    program = hx.export(model, torch.randn(5, 2, 3), None, dynamic={"x": {1: "h", 2: "w"}})
    for shape in ((5, 1, 4), (5, 6, 1)):
        x = torch.randn(shape)
        for found, wanted in zip(program.run(x), model(x)):
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("opset", [13, 20])
def test_rows_of_sparse_indices_and_where_they_start(opset):
    def model(rows, columns):
        size = 2 * rows.shape[0]
        rows = (rows % size).sort()[0]  # PyTorch writes anywhere where a row is too large
        starts = torch._convert_indices_from_coo_to_csr(rows, size)
        back = torch._convert_indices_from_csr_to_coo(starts, columns, transpose=True)
        return starts, back, torch._convert_indices_from_csr_to_coo(starts, columns, out_int32=True)

    def inputs(count):
        return torch.randint(0, 2 * count, (count,)), torch.randint(0, 9, (count,))

    program = hx.export(model, inputs(5), None, opset=opset,
                        dynamic={"rows": {0: "n"}, "columns": {0: "n"}})  # fmt: skip
    for count in (1, 2, 7, 40):
        x = inputs(count)
        for found, wanted in zip(program.run(*x), model(*x)):
            assert torch.equal(found, wanted) and found.dtype == wanted.dtype

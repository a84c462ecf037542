"""Numbers in steps, of which there are as many as PyTorch counts."""

import pytest
import torch

import hx

RANGES = {
    "seconds": lambda x: torch.arange(0, x.shape[1] / 16000, 1 / 16000),
    "shares": lambda x: torch.arange(0, 1, 1 / x.shape[1]),
    "both sides": lambda x: torch.arange(-1, 1, 2 / x.shape[1]),
    "tenths": lambda x: torch.arange(0, x.shape[1], 0.1),
    "tenths of a size": lambda x: torch.arange(0, x.shape[1] * 0.1, 0.1),
    "backwards": lambda x: torch.arange(x.shape[1], 0, -0.7),
    "from a size on": lambda x: torch.arange(x.shape[1], 70.5, 1.5),
    "of a size, between": lambda x: torch.arange(0.5, x.shape[1] + 0.25, x.shape[1] / 7),
    "along an axis": lambda x: torch._dim_arange(x, 1),
    "of data": lambda x: torch.arange(0, x.abs().sum().item() + 1, 0.3),
}


@pytest.mark.parametrize("name", RANGES)
def test_as_many_as_pytorch_counts(name):
    function = RANGES[name]
    program = hx.export(function, torch.ones(1, 16), None, dynamic={"x": {1: "s"}})
    for size in [*range(2, 60), 99, 300, 1601][: 58 if name == "from a size on" else None]:
        x = torch.ones(1, size)
        torch.testing.assert_close(program.run(x), function(x), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_numbers_that_are_counted_beyond_what_their_dtype_holds(dtype):
    def model(x):
        return x * torch.arange(x.shape[1], dtype=dtype)

    program = hx.export(model, torch.ones(1, 6), dynamic={"x": {1: "n"}})
    assert not program.report.promised
    for n in (1, 127, 128, 129, 256, 300, 1031, 32770):
        x = torch.ones(1, n)
        torch.testing.assert_close(program.run(x), model(x))


@pytest.mark.filterwarnings(
    "ignore:An output with one or more elements was resized",
    "ignore:The number of elements in the out",
)
@pytest.mark.parametrize("end", [8.5, 8])
def test_numbers_that_are_counted_into_a_tensor(end):
    """It is as long as there are numbers, however long it was."""

    def model(x, end):
        return torch.arange(x.shape[0], end, out=torch.tensor([1], dtype=end.dtype))

    program = hx.export(model, (torch.ones(2), torch.tensor(end)), None, dynamic=[{0: "n"}, None])
    for n, more in ((1, 3), (4, 0), (6, 20)):
        given = torch.ones(n), torch.tensor(end) + more
        torch.testing.assert_close(program.run(*given), model(*given))


@pytest.mark.parametrize("opset", [13, 20, 26])
@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int64, torch.float16, torch.bfloat16,
     torch.float64],
    ids=str,
)  # fmt: skip
def test_ones_on_the_diagonal(dtype, opset):
    """`~torch.eye(n, dtype=torch.bool)`: everything but itself."""

    def model(x):
        n, m = x.shape
        return x.masked_fill(torch.eye(n, m, dtype=dtype).bool(), 0.0), torch.eye(n, dtype=dtype)

    program = hx.export(model, torch.randn(3, 4), dynamic=[{0: "n", 1: "m"}], opset=opset)
    for shape in [(1, 1), (5, 2), (2, 5)]:
        x = torch.randn(shape)
        assert all(map(torch.equal, program.run(x), model(x)))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("step", [1, 1.5, 2])
def test_whole_numbers_from_and_to_some_that_are_none(dtype, step):
    """As many as there are below the last, with its fraction; not of int64, which has none."""

    def model(x):
        return torch.arange(x[0], x.sum(), step, dtype=dtype)

    program = hx.export(model, torch.tensor([1.2, 4.3]), dynamic=[{0: "n"}])
    for numbers in ([2.0, 5.0], [0.5, 3.75, 1.5], [0.25, 0.5], [3.9, 1.2]):
        x = torch.tensor(numbers)
        assert torch.equal(program.run(x), model(x)), numbers

"""Where elements would go in an order, and what a list holds."""

import pytest
import torch

import hx

NAN, INF = torch.nan, torch.inf
SIZES = [(1, 1), (2, 5), (3, 1), (7, 4), (8, 4), (9, 4), (100, 7)]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8]


def numbers(shape, dtype):
    if dtype.is_floating_point:
        return (torch.randn(shape) * 4).round().to(dtype)
    return torch.randint(0, 20, shape).to(dtype)


def holds(program, model, *inputs):
    for x in inputs:
        torch.testing.assert_close(program.run(*x), model(*x), rtol=0, atol=0)


@pytest.mark.parametrize("opset", [13, 26])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_list(dtype, right, opset):
    def model(bounds, x):
        return torch.searchsorted(bounds, x, right=right)

    def inputs(n, m):
        return numbers((n,), dtype).sort()[0], numbers((m, 3), dtype)

    program = hx.export(model, inputs(20, 9), None, opset=opset,
                        dynamic={"bounds": {0: "n"}, "x": {0: "m"}})  # fmt: skip
    holds(program, model, inputs(0, 3), *(inputs(*size) for size in SIZES))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_list_for_each_row_and_its_order(side):
    def model(x, order, y):
        return torch.searchsorted(x, y, side=side, sorter=order, out_int32=True)

    def inputs(n, m):
        x = numbers((2, 3, n), torch.float32)
        return x, x.argsort(-1), numbers((2, 3, m), torch.float32)

    program = hx.export(model, inputs(20, 9), None,
                        dynamic={"x": {2: "n"}, "order": {2: "n"}, "y": {2: "m"}})  # fmt: skip
    holds(program, model, *(inputs(*size) for size in SIZES))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    "bounds", [[-INF, 0, 1.5, INF], [-1, 0, 2, NAN, NAN], [NAN], [3, 1, 2, 0], [1, 1, 1], []]
)
def test_bounds_of_any_kind(bounds, fixed):
    """Of what has no order, PyTorch finds what it comes by; NaN lies after all others."""
    bounds = torch.tensor(bounds, dtype=torch.float32)
    x = torch.tensor([NAN, INF, -INF, 0, 1.5, 3, -7])
    if fixed:

        def model(x):
            return torch.bucketize(x, bounds)

        holds(hx.export(model, x, None), model, (x,))
    else:
        model = torch.searchsorted
        example = torch.arange(9.0), x
        program = hx.export(lambda b, x: model(b, x), example, None, dynamic={"b": {0: "n"}})
        holds(program, model, (bounds, x))


@pytest.mark.parametrize("size", [0, 3, 16, 17, 200])
@pytest.mark.parametrize("right", [False, True])
def test_a_table(size, right):
    bounds = torch.randn(size).sort()[0]

    def model(x):
        return torch.bucketize(x, bounds, right=right)

    program = hx.export(model, torch.randn(5), None, dynamic={"x": {0: "n"}})
    holds(program, model, (torch.randn(300),), (torch.cat([bounds, torch.randn(1)]),))


def test_many_bounds():
    """All pairs would be 10 GB even as booleans."""
    program = hx.export(lambda b, x: torch.searchsorted(b, x), (torch.arange(9.0), torch.randn(8)),
                        None, dynamic={"b": {0: "n"}, "x": {0: "m"}})  # fmt: skip
    holds(program, torch.searchsorted, (torch.randn(100_000).sort()[0], torch.randn(100_000)))


@pytest.mark.parametrize("count", [4, 30, "m"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8])
def test_what_a_list_holds(dtype, count):
    def inputs(n, m):
        return numbers((n, 2), dtype), numbers((m,), dtype)

    dynamic = {"x": {0: "n"}} | ({"known": {0: "m"}} if count == "m" else {})
    given = [0, 1, 5, 40, 300] if count == "m" else [count]
    for invert in (False, True):

        def model(x, known, invert=invert):
            return torch.isin(x, known, invert=invert)

        program = hx.export(model, inputs(9, 20 if count == "m" else count), None, dynamic=dynamic)
        holds(program, model, *(inputs(n, m) for m in given for n in (1, 50)))


@pytest.mark.parametrize("known", [[NAN, 1.5, -INF], [NAN, NAN, 1.5, INF] * 9, [NAN] * 20])
def test_nan_is_in_no_list(known):
    x = torch.tensor([[NAN, INF], [-INF, 1.5]])
    known = torch.tensor(known)
    program = hx.export(lambda x, k: torch.isin(x, k), (x, torch.randn(9)), None,
                        dynamic={"k": {0: "n"}})  # fmt: skip
    holds(program, torch.isin, (x, known))


def test_many_in_a_long_list():
    program = hx.export(lambda x, k: torch.isin(x, k), (torch.arange(9), torch.arange(8)), None,
                        dynamic={"x": {0: "n"}, "k": {0: "m"}})  # fmt: skip
    holds(program, torch.isin, tuple(torch.randint(0, 10**6, (100_000,)) for _ in range(2)))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_the_number_that_most_are_equal_to(dtype, axis):
    def model(x):
        return torch.mode(x, axis)[0]

    program = hx.export(model, numbers((3, 9, 2), dtype), None, dynamic={"x": {1: "n"}})
    holds(program, model, *((numbers((3, n, 2), dtype),) for n in (1, 2, 3, 8, 50, 400)))

"""Operators that say places in memory, and others that stand behind a well-known call."""

import pytest
import torch

import hx

aten = torch.ops.aten
PLACES = torch.tensor([1, 0])


def put_in_place(x):
    y = x.clone()
    torch._index_put_impl_(y, [PLACES], torch.ones(2, 6))
    return y


MODELS = {
    "index_put in place": put_in_place,
    "index_put, added up": lambda x: aten._index_put_impl(x, [None, PLACES], torch.ones(2), True),
    "another form": lambda x: aten._reshape_alias(x * 1, [x.shape[0] * 2, 3], [3, 1]) + 1,
    "columns": lambda x: aten._reshape_alias((x * 1).t(), [6, x.shape[0]], [1, 6]) + 1,
    "strides of sizes": lambda x: aten._reshape_alias(x, [3, 2 * len(x)], [2 * len(x), 1]) + 1,
    "scattered": lambda x: torch.as_strided_scatter(x, torch.ones(2, 3), (2, 3), (1, 2), 1),
    "scattered as often as a size says": lambda x: torch.as_strided_scatter(
        x, torch.ones(x.shape[0], 2), (x.shape[0], 2), (6, 2), 1
    ),
    "scattered into columns": lambda x: torch.as_strided_scatter(
        (x * 1).t(), torch.ones(2, 3), (2, 3), (1, 2), 1
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_places_in_memory_at_other_sizes(name):
    model = MODELS[name]
    program = hx.export(model, torch.randn(4, 6), None, dynamic={"x": {0: "n>=2"}})
    assert program.proof.ok
    for n in (2, 7):
        x = torch.randn(n, 6)
        torch.testing.assert_close(program.run(x), model(x))

"""What a mask picks, where nobody knows before the run how it and the tensor are broadcast."""

import pytest
import torch

import hx

aten = torch.ops.aten
WORDS = {"x": {0: "a", 1: "b"}, "mask": {0: "c", 1: "d"}}
MASKED = {
    "scatter": lambda x, mask: x.masked_scatter(mask, torch.arange(999.0)),
    "select": lambda x, mask: x.masked_select(mask),
    "fill": lambda x, mask: x.masked_fill(mask, 7),
    "all but": lambda x, mask: torch.where(mask, x, x * 2).cumsum(0),
}


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_with_sizes_of_its_own(name):
    function = MASKED[name]

    def inputs(sizes, of_mask):
        return torch.rand(sizes), torch.rand(of_mask) > 0.5

    program = hx.export(lambda x, mask: function(x, mask), inputs((4, 5), (4, 5)), dynamic=WORDS)
    for sizes in [((6, 7), (6, 7)), ((3, 5), (1, 5)), ((1, 3), (4, 1)), ((1, 1), (3, 2))]:
        x, mask = inputs(*sizes)
        torch.testing.assert_close(program.run(x, mask), function(x, mask))


PLACES = torch.tensor([9, 3, -20, -8, 7])


def picked(x, mask):
    return aten._unsafe_masked_index(x, mask, [None, PLACES], 0.5)


def put(x, mask):
    values = x[:, :5].contiguous()
    return aten._unsafe_masked_index_put_accumulate(x, mask, [None, PLACES], values)


@pytest.mark.parametrize("function", [picked, put])
def test_places_outside_of_a_tensor_are_its_ends(function):
    x = torch.rand(3, 8)
    masks = [torch.tensor([False, True, False, True, True]), torch.ones(3, 1, dtype=torch.bool)]
    for mask in masks:
        program = hx.export(function, (x, mask), dynamic={"x": {0: "n"}})
        assert torch.equal(program.run(x, mask), function(x, mask))

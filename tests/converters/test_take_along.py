"""torch.take_along_dim counts places round and round; torch.gather refuses those outside."""

import pytest
import torch

import hx


def wrapped(x, places):
    return torch.take_along_dim(x, places, 1)


def test_places_outside_of_the_axis():
    x, places = torch.randn(4, 5), torch.tensor([[4, 0, 2]])
    dynamic = {"x": {0: "a", 1: "b"}, "places": {1: "c"}}
    program = hx.export(wrapped, (x, places), None, dynamic=dynamic)
    for size in ((2, 1), (1, 3), (0, 2), (3, 9)):
        given = torch.randn(size), torch.tensor([[4, 0, -1, 7, -13, 99]])
        assert torch.equal(program.run(*given), wrapped(*given))
    given = torch.randn(3, 0), torch.zeros(1, 0, dtype=torch.int64)
    assert torch.equal(program.run(*given), wrapped(*given))


@pytest.mark.parametrize("places", [[[5, -6, 0]], [[-5, 4, 1]]])
def test_places_that_are_known(places):
    def model(x):
        return wrapped(x, torch.tensor(places))

    for dynamic in (None, {"x": {1: "n"}}):
        program = hx.export(model, torch.randn(4, 5), None, dynamic=dynamic)
        x = torch.randn(4, 5)
        assert torch.equal(program.run(x), model(x))


ORDERS = {
    "argsort": lambda x: wrapped(x, x.argsort(1)),
    "first of them": lambda x: wrapped(x, x.argsort(1, descending=True)[:, :2]),
    "argmax": lambda x: wrapped(x, x.argmax(1, keepdim=True)),
    "topk": lambda x: wrapped(x, x.topk(2, 1)[1].flip(1)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_places_of_an_order_are_taken_as_they_are(name):
    program = hx.export(ORDERS[name], torch.randn(4, 5), None, dynamic={"x": {1: "n>=2"}})
    assert "Mod" not in [node.op_type for node in program.model.graph]
    x = torch.randn(4, 7)
    assert torch.equal(program.run(x), ORDERS[name](x))


def test_places_of_a_longer_order():
    def model(x, y):
        return wrapped(x, y.argsort(1))

    given = torch.randn(2, 5), torch.randn(2, 5)
    program = hx.export(model, given, None, dynamic={"x": {1: "n"}, "y": {1: "m"}})
    x, y = torch.randn(2, 4), torch.randn(2, 9)
    assert torch.equal(program.run(x, y), model(x, y))

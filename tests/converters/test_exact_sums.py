"""Sums of many numbers, which PyTorch rounds once: running ones, and those of whole axes."""

import pytest
import torch

import hx

RUNNING = {
    "sum": (torch.cumsum, lambda: torch.rand(2, 5000)),
    "product": (torch.cumprod, lambda: torch.empty(2, 5000).uniform_(0.99, 1.01)),
    "logarithm": (torch.logcumsumexp, lambda: torch.rand(2, 5000)),
}
HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("name", RUNNING)
def test_a_running_result_is_carried_in_more_digits(name, dtype):
    function, numbers = RUNNING[name]
    torch.manual_seed(0)
    x = numbers().to(dtype)
    program = hx.export(lambda x: function(x, 1), x, dynamic={"x": {1: "n"}})
    for n in (5000, 3000):
        found, expected = program.run(x[:, :n]).double(), function(x[:, :n], 1).double()
        assert ((found - expected).abs() <= torch.finfo(dtype).eps * expected.abs()).all()


def test_complex_numbers_are_carried_in_more_digits_too():
    torch.manual_seed(0)
    x = torch.polar(torch.ones(3000), torch.rand(3000) / 100)

    def along(x):
        return torch.cumsum(x, 0), torch.cumprod(x, 0)

    for found, expected in zip(hx.export(along, x).run(x), along(x)):
        assert torch.equal(found, expected)


def test_what_leaves_the_range_on_the_way_comes_back():
    x = torch.tensor([3e38, 3e38, -3e38, 1])
    assert torch.equal(hx.export(lambda x: x.cumsum(0), x).run(x), x.cumsum(0))


# More numbers than one sum of float32 takes: along one axis, the last ones, the first ones, all.
MANY = {
    "mean": (lambda x: x.mean(), (3, 300, 400)),
    "mean of rows": (lambda x: x.mean(1), (2, 200_000)),
    "mean of columns": (lambda x: x.mean(0), (100_000, 8)),
    "mean of images": (lambda x: x.mean((2, 3), keepdim=True), (1, 3, 500, 500)),
    "mean, channels last": (lambda x: x.mean((1, 2)), (1, 500, 500, 3)),
    "sum": (lambda x: x.sum(), (300_000,)),
    "variance": (lambda x: x.var(), (300_000,)),
    "deviation and mean": (lambda x: torch.std_mean(x, (1, 2)), (2, 500, 500)),
    "logsumexp": (lambda x: x.logsumexp((0, 1)), (1000, 1000)),
    "length": (lambda x: x.norm(dim=(1, 2)), (2, 1000, 1000)),
    "pool": (lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 1), (1, 2, 500, 500)),
    "instances": (lambda x: torch.nn.functional.instance_norm(x), (2, 2, 500, 500)),
    "groups": (lambda x: torch.nn.functional.group_norm(x, 2), (2, 4, 300, 300)),
    "layer": (lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]), (2, 4, 300, 300)),
    "batch": (lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
              (2, 2, 300, 300)),
    "loss": (lambda x: torch.nn.functional.mse_loss(x, x.flip(0)), (600, 600)),
}  # fmt: skip


@pytest.mark.parametrize("name", MANY)
def test_many_numbers_are_added_to_the_last_digit(name):
    function, shape = MANY[name]
    torch.manual_seed(0)
    x = torch.rand(shape) + 1
    program = hx.export(function, x)
    found, expected = program.run(x), function(x.double())
    for y, exact in zip(*[v if isinstance(v, tuple) else (v,) for v in (found, expected)]):
        assert (y - exact).abs().max() <= 3e-7 * exact.abs().max()


@pytest.mark.parametrize("name", ["mean", "mean of columns", "groups", "layer", "instances"])
def test_many_numbers_are_added_at_other_sizes(name):
    function, shape = MANY[name]
    torch.manual_seed(0)
    x = torch.rand(shape)
    axis = len(shape) - 1
    program = hx.export(function, x, dynamic={"x": {0: "a", axis: "b"}})
    for n in (7, shape[axis] + 3):
        other = torch.rand(3, *shape[1:axis], n)
        torch.testing.assert_close(program.run(other), function(other))


def test_weights_follow_a_normalization_of_many_numbers():
    torch.manual_seed(0)
    x = torch.rand(1, 4, 300, 300)
    layers = [
        torch.nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        torch.nn.GroupNorm(2, 4),
        torch.nn.LayerNorm([4, 300, 300]),
    ]
    for layer in layers:
        for weight in layer.parameters():
            torch.nn.init.normal_(weight)
        for training in (False, True):
            module = layer.train(training)
            program = hx.export(lambda x, module=module: module(x), x)
            torch.testing.assert_close(program.run(x), module(x), rtol=1e-5, atol=2e-6)


def test_nothing_but_minus_infinity_in_a_part():
    x = torch.rand(300, 300)
    x[7] = -torch.inf
    program = hx.export(lambda x: x.logsumexp((0, 1)), x)
    torch.testing.assert_close(program.run(x), x.logsumexp((0, 1)))
    x[:] = -torch.inf
    assert program.run(x) == -torch.inf


def operators(function, *shape):
    return [node.op_type for node in hx.export(function, torch.rand(shape)).model.graph]


def test_ordinary_numbers_are_added_by_one_node():
    assert operators(lambda x: x.mean((2, 3)), 1, 3, 224, 224) == ["ReduceMean"]
    assert operators(torch.nn.functional.instance_norm, 1, 3, 256, 256) == ["InstanceNormalization"]

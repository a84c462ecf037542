"""Weights that are tensors of a class of their own, which hold others: quantized ones."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx

aten = torch.ops.aten


class Packed(torch.Tensor):
    """Whole numbers with a scale for each row; it says what operators do."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype)

    def __init__(self, data, scale):
        self.data8, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data8", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["data8"], parts["scale"])

    @classmethod
    def of(cls, weight):
        scale = weight.detach().abs().amax(1, keepdim=True) / 127
        return cls((weight.detach() / scale).round().to(torch.int8), scale)

    def plain(self):
        return self.data8.to(self.scale.dtype) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is aten.detach.default:
            return cls(args[0].data8, args[0].scale)
        plain = [x.plain() if isinstance(x, Packed) else x for x in args]
        return func(*plain, **kwargs or {})


class Spoken(Packed):
    """One that says what linear is, as well: the scale comes after the product."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            x, weight, *bias = args
            flat = x.reshape(-1, x.shape[-1])
            y = (flat @ weight.data8.t().to(x.dtype)) * weight.scale[:, 0]
            y = y.reshape(*x.shape[:-1], -1)
            return y + bias[0] if bias and bias[0] is not None else y
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs or {})


def packed(module, kind):
    for each in module.modules():
        if isinstance(each, (nn.Linear, nn.Embedding)):
            each.weight = nn.Parameter(kind.of(each.weight), requires_grad=False)
    return module.eval()


@pytest.mark.parametrize("kind, lead", [(Packed, (2,)), (Spoken, (2,)), (Spoken, (2, 3))])
def test_a_linear_layer(kind, lead):
    model = packed(nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 5, bias=False)), kind)
    names = {i: f"n{i}" for i in range(len(lead))}
    program = hx.export(model, torch.randn(*lead, 8), dynamic={"input": names})
    assert not program.report.escapes
    x = torch.randn(*(5 + i for i in range(len(lead))), 8)
    torch.testing.assert_close(program.run(x), model(x), atol=1e-5, rtol=1e-5)


def test_whole_numbers_stay_so_in_the_file():
    model = packed(nn.Sequential(nn.Linear(32, 24)), Spoken)
    program = hx.export(model, torch.randn(2, 32))
    kinds = {name: v.dtype.name for name, v in program.model.graph.initializers.items()}
    assert kinds["0.weight.data8.transposed"] == "INT8"


@pytest.mark.parametrize("kind", [Packed, Spoken])
def test_an_embedding(kind):
    model = packed(nn.Sequential(nn.Embedding(7, 4), nn.ReLU()), kind)
    program = hx.export(model, torch.tensor([[1, 6, 0]]), dynamic={"input": {1: "n"}})
    ids = torch.tensor([[3, 3, 5, 2, 0]])
    torch.testing.assert_close(program.run(ids), model(ids))


def test_the_model_stays_as_it_was():
    model = packed(nn.Sequential(nn.Linear(8, 6)), Packed)
    before = model[0].weight
    hx.export(model, torch.randn(2, 8))
    assert model[0].weight is before and type(before) is Packed


def test_a_weight_that_is_packed_while_the_model_runs():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            whole = Packed.of(torch.randn(6, 8))
            self.register_buffer("data8", whole.data8)
            self.register_buffer("scale", whole.scale)

        def forward(self, x):
            return F.linear(x, Packed(self.data8, self.scale))

    model = Model()
    program = hx.export(model, torch.randn(2, 8), dynamic={"x": {0: "n"}})
    x = torch.randn(5, 8)
    torch.testing.assert_close(program.run(x), model(x), atol=1e-5, rtol=1e-5)


class Pair:
    """No tensor, and it says what functions of torch do with it, as a dict of tensors may."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.stack:
            parts = zip(*((pair.a, pair.b) for pair in args[0]))
            return cls(*(torch.stack(part, *args[1:]) for part in parts))
        if func is torch.add:
            return cls(args[0].a + args[1], args[0].b + args[1])
        return NotImplemented


class Foreign(Pair):
    """It leaves all to the other."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


@pytest.mark.parametrize("kind", [Pair, Foreign])
def test_what_is_no_tensor_says_itself_what_a_function_does(kind):
    def model(x):
        both = torch.stack([Pair(x, x * 2), kind(x + 1, x * 3)], 1)
        moved = torch.add(both, x[:, None])
        return moved.a, moved.b

    program = hx.export(model, torch.randn(4, 3), dynamic={"x": {0: "n"}})
    x = torch.randn(6, 3)
    for got, want in zip(program.run(x), model(x)):
        torch.testing.assert_close(got, want)


def test_what_no_class_can_say_is_the_models_own_error():
    with pytest.raises(TypeError, match="torch.sub"):
        hx.export(lambda x: torch.sub(Pair(x, x), x), torch.randn(3))

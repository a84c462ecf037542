"""Tricks with classes: hooks, weight norm, parametrizations, __getattr__, partial."""

from __future__ import annotations

import contextlib
import functools

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from ..listing import factory, model


@factory(x="float[n,4]")
def forward_hook():
    layer = nn.Linear(4, 3)
    layer.register_forward_hook(lambda module, args, out: out * 2)
    return layer


@factory(x="float[n,4]")
def forward_pre_hook():
    layer = nn.Linear(4, 3)
    layer.register_forward_pre_hook(lambda module, args: (args[0].relu(),))
    return layer


@factory(x="float[n,4]")
def hook_that_asks_for_size():
    layer = nn.Linear(4, 3)
    layer.register_forward_hook(lambda module, args, out: out / args[0].shape[0])
    return layer


@factory(x="float[n,4]")
def hooks_that_collect():
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    seen = {}
    for name, module in net.named_children():
        module.register_forward_hook(lambda m, args, out, name=name: seen.__setitem__(name, out))

    def run(x):
        net(x)
        return [seen[name] for name in ("0", "2")]

    return run


@factory(x="float[n,4]")
def weight_norm():
    return nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))


@factory(x="float[n,4]")
def spectral_norm():
    return parametrizations.spectral_norm(nn.Linear(4, 3))


@factory(x="float[n,4]")
def old_spectral_norm():
    return nn.utils.spectral_norm(nn.Linear(4, 3))


@factory(x="float[n,4]")
def orthogonal():
    return parametrizations.orthogonal(nn.Linear(4, 4))


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).mT


@factory(x="float[n,4]")
def own_parametrization():
    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


@factory(x="float[n,4]")
def pruned():
    from torch.nn.utils import prune

    layer = nn.Linear(4, 3)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    return layer


@model(x="float[n,4]")
class GetAttr(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def __getattr__(self, name):
        if name == "twice":
            return lambda x: self.layer(x) * 2
        return super().__getattr__(name)

    def forward(self, x):
        return self.twice(x)


@model(x="float[n,4]")
class Delegating(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x):
        return F.linear(x, self.weight * 2, self.bias)


@factory(x="float[n,4]")
def partial_of_function():
    return functools.partial(lambda x, scale, shift: x * scale + shift, scale=2.0, shift=1.0)


@factory(x="float[n,4]")
def partial_of_layer():
    make = functools.partial(nn.Linear, bias=False)
    return nn.Sequential(make(4, 3), nn.ReLU(), make(3, 2))


@model(x="float[n,4]")
class PropertyWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.randn(4))

    @property
    def weights(self):
        return self.raw.softmax(0)

    def forward(self, x):
        return x @ self.weights


@model(x="float[n,4]")
class CachedProperty(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.randn(4))

    @functools.cached_property
    def weights(self):
        return self.raw.exp()

    def forward(self, x):
        return x * self.weights


class Mixin:
    def forward(self, x):
        return super().forward(x) + 1


@factory(x="float[n,4]")
def mixin_before_linear():
    class Own(Mixin, nn.Linear):
        pass

    return Own(4, 3)


@factory(x="float[n,4]")
def forward_replaced_on_instance():
    layer = nn.Linear(4, 4)
    original = layer.forward
    layer.forward = lambda x: original(x) + x
    return layer


@model(x="float[n,4]")
class CallOverridden(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def __call__(self, x):
        return super().__call__(x * 2)

    def forward(self, x):
        return self.layer(x)


@factory(x="float[n,4]")
def object_with_call():
    class Own:
        def __init__(self):
            self.w = torch.randn(4)

        def __call__(self, x):
            return x * self.w

    return Own()


@factory(x="float[n,4]")
def bound_method():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def encode(self, x):
            return self.layer(x).tanh()

    return Own().encode


def doubled(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return run


@factory(x="float[n,4]")
def decorated():
    @doubled
    def run(x):
        return x + x.shape[0]

    return run


@model(x="float[n,4]")
class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    @torch.no_grad()
    def forward(self, x):
        return self.layer(x).detach()


@model(x="float[n,4]")
class StraightThrough(nn.Module):
    def forward(self, x):
        hard = (x > 0).float()
        soft = x.sigmoid()
        return hard - soft.detach() + soft


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * ctx.saved_tensors[0]


@model(x="float[n,4]")
def own_function(x):
    return Squared.apply(x) + 1


class Step(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return (x > 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad


@model(x="float[n,4]")
def own_function_with_context(x):
    return Step.apply(x) * x.shape[0]


class Tagged(torch.Tensor):
    pass


@model(x="float[n,4]")
def tensor_subclass(x):
    y = x.as_subclass(Tagged)
    return (y * 2).as_subclass(torch.Tensor).relu()


@model(x="float[n,4]")
class ModuleDictByKey(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

    def forward(self, x):
        return {name: head(x) for name, head in self.heads.items()}


@model(x="float[n,4]")
class ParametersInList(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList(torch.randn(4) for _ in range(3))
        self.named = nn.ParameterDict({"shift": torch.randn(4)})

    def forward(self, x):
        for scale in self.scales:
            x = x * scale
        return x + self.named["shift"]


@model(x="float[n,4]")
class SharedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a

    def forward(self, x):
        return self.b(self.a(x).relu())


@model(x="float[n,4]")
class FunctionFromAttribute(nn.Module):
    def __init__(self, activation="gelu"):
        super().__init__()
        self.activation = getattr(F, activation)

    def forward(self, x):
        return self.activation(x)


@model(x="float[n,4]")
class ContextManager(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    @contextlib.contextmanager
    def scaled(self, by):
        self.scale, before = by, self.scale
        try:
            yield
        finally:
            self.scale = before

    def forward(self, x):
        with self.scaled(3.0):
            y = x * self.scale
        return y + self.scale


@factory(x="float[n,4]")
def scripted():
    class Own(nn.Module):
        def forward(self, x):
            if x.shape[0] > 10:
                return x * 2
            return x + 1

    return Own()


@factory(x="float[n,4]")
def scripted_function():
    @torch.jit.script
    def run(x: torch.Tensor):
        y = x
        for i in range(x.shape[0]):
            y = y + i
        return y

    return run


@factory(x="float[n,4]")
def traced_inside():
    layer = torch.jit.trace(nn.Linear(4, 3).eval(), torch.zeros(2, 4))
    return lambda x: layer(x).relu()


@factory(x="float[n,4]")
def vmapped():
    def one(row):
        return (row * row).sum() + row[0]

    return torch.vmap(one)


@factory(x="float[n,4]")
def functional_call():
    layer = nn.Linear(4, 3)
    weights = {name: p.detach() * 2 for name, p in layer.named_parameters()}
    return lambda x: torch.func.functional_call(layer, weights, (x,))


@model(x="float[n,4]")
class LowRankAdapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x)) * 0.5


@model(x="float[n,4]")
class SelfNaming(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(3):
            setattr(self, f"layer{i}", nn.Linear(4, 4))

    def forward(self, x):
        for i in range(3):
            x = getattr(self, f"layer{i}")(x).relu()
        return x

"""Models that somebody has wrapped, traced or split before the export.

Each is exported with its proof, or refused with an error of its own; and afterwards the world is as
it was.
"""

from __future__ import annotations

import functools
import types
import warnings

import pytest
import torch
import torch._dynamo
import torch.nn.utils.prune as prune
from odd import Base, looked_at, of
from torch import nn

import hx


def wrapped_by_partials():
    """As accelerate does it."""
    model = Base()
    for module in model.modules():
        old = module.forward

        def new(module, *args, old=old, **kwargs):
            return old(*(a.to("cpu") for a in args), **kwargs)

        module._old_forward = old
        module.forward = functools.update_wrapper(functools.partial(new, module), old)
    return model


def wrapped_by_methods():
    model = Base()
    for module in model.modules():
        old = module.forward
        module.forward = types.MethodType(lambda self, *args, old=old: old(*args), module)
    return model


class Engine(nn.Module):
    """As deepspeed does it: what it lacks is its model's."""

    def __init__(self):
        super().__init__()
        self.module = Base()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


class Adapted(nn.Module):
    """As peft does it."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora_a = nn.ModuleDict({"default": nn.Linear(4, 2, bias=False)})
        self.lora_b = nn.ModuleDict({"default": nn.Linear(2, 4, bias=False)})

    def forward(self, x, *args, **kwargs):
        y = self.base_layer(x, *args, **kwargs)
        for name, a in self.lora_a.items():
            y = y + self.lora_b[name](a(x.to(a.weight.dtype))) * 0.5
        return y


def adapted():
    model = Base()
    model.fc, model.fc2 = Adapted(model.fc), Adapted(model.fc2)
    return model


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T


def parametrized():
    model = Base()
    nn.utils.parametrize.register_parametrization(model.fc, "weight", Symmetric())
    return model


def with_cached_parameters():
    model = parametrized()

    def forward(self, x):
        with nn.utils.parametrize.cached():
            return self.fc(x) + self.fc(x + 1)

    model.__class__ = type("Cached", (type(model),), {"forward": forward})
    return model


def changed(function, *args):
    def make():
        model = Base()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(model.fc, *args)
        return model

    return make


def compiled_part():
    model = Base()
    model.fc = torch.compile(model.fc, backend="eager")
    return model


def compiled_in_place():
    model = Base()
    model.compile(backend="eager")
    return model


def rewritten_graph():
    model = torch.fx.symbolic_trace(Base())
    for node in model.graph.nodes:
        if node.op == "call_method":
            node.target = "sigmoid"
    model.recompile()
    return model


def decorated(decorator):
    def make():
        model = Base()
        model.forward = decorator(model.forward)
        return model

    return make


def decorated_class(decorator):
    return type("Decorated", (Base,), {"forward": decorator(Base.forward)})


def with_other_parameters():
    model = Base()
    other = {name: p.detach() * 2 for name, p in model.named_parameters()}
    return lambda x: torch.func.functional_call(model, other, (x,))


MODELS = {
    "accelerate": wrapped_by_partials,
    "methods": wrapped_by_methods,
    "deepspeed": Engine,
    "peft": adapted,
    "parametrized": parametrized,
    "parametrized, cached": with_cached_parameters,
    "weight_norm, old": changed(nn.utils.weight_norm),
    "weight_norm": changed(nn.utils.parametrizations.weight_norm),
    "spectral_norm, old": changed(nn.utils.spectral_norm),
    "spectral_norm": changed(nn.utils.parametrizations.spectral_norm),
    "pruned": changed(prune.l1_unstructured, "weight", 0.3),
    "torch.compile": lambda: torch.compile(Base(), backend="eager"),
    "torch.compile, a part": compiled_part,
    "torch.compile, in place": compiled_in_place,
    "torch.fx": lambda: torch.fx.symbolic_trace(Base()),
    "torch.fx, rewritten": rewritten_graph,
    "torch.export": lambda: torch.export.export(Base().eval(), (torch.randn(2, 4),)).module(),
    "no_grad": decorated(torch.no_grad()),
    "no_grad, class": decorated_class(torch.no_grad()),
    "inference_mode": decorated(torch.inference_mode()),
    "inference_mode, class": decorated_class(torch.inference_mode()),
    "vmap": lambda: torch.vmap(Base()),
    "functional_call": with_other_parameters,
    "traced": lambda: torch.jit.trace(Base().eval(), torch.randn(2, 4)),
    "scripted": lambda: torch.jit.script(nn.Sequential(nn.Linear(4, 4))),
    "jit.fork": lambda: of(lambda s, x: torch.jit.wait(torch.jit.fork(s.fc, x)) + s.fc2(x)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_others_have_wrapped(name, World):
    torch._dynamo.reset()
    model = MODELS[name]()
    if isinstance(model, nn.Module) and name != "torch.export":  # which has no other mode
        model.eval()
    got, x = looked_at(World, model)
    with torch.no_grad():
        torch.testing.assert_close(got, model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_cannot_be_watched_is_refused(World):
    model = Base()
    watched, x = torch.func.functionalize(model), torch.randn(2, 4)
    world = World(model)
    with pytest.raises(hx.Unaccounted, match="came from code that hx could not see"):
        hx.export(watched, x)
    world.require_unchanged("a refusal")


def test_a_model_in_distributed_data_parallel(tmp_path):
    """As a training script leaves it: its forward refuses PyTorch's exporters, and runs here."""
    from torch import distributed

    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    distributed.init_process_group("gloo", f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(6, 4)).eval()
        program = hx.export(model, torch.randn(3, 6), dynamic=[{0: "n"}])
        assert program.proof.ok and program.model.graph.num_nodes() == 1
    finally:
        distributed.destroy_process_group()


def test_memory_that_is_given_back_between_calls():
    """As libraries do that shard or offload weights: a tensor without room for its numbers."""

    class Freed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3))
            self.register_buffer("whole", torch.empty(4, 3))
            self.whole.untyped_storage().resize_(0)

        def forward(self, x):
            self.whole.untyped_storage().resize_(48)
            self.whole.copy_(self.weight.detach())
            y = x @ self.whole
            self.whole.untyped_storage().resize_(0)
            return y

    model = Freed()
    program = hx.export(model, torch.randn(2, 4), dynamic={"x": {0: "n"}})
    x = torch.randn(5, 4)
    torch.testing.assert_close(program.run(x), x @ model.weight.detach())
    assert model.whole.untyped_storage().nbytes() == 0


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, image, scale=1.0):
        return self.linear(image) * scale

    def encode(self, image, norm=True):
        return self.linear(image)


@pytest.mark.parametrize(
    "wrap, weight",
    [
        (nn.DataParallel, "module.linear.weight"),
        (torch.optim.swa_utils.AveragedModel, "module.linear.weight"),
        (lambda model: functools.partial(model.encode, norm=False), "self.linear.weight"),
    ],
)
def test_inputs_and_weights_are_called_as_what_is_wrapped_calls_them(wrap, weight):
    program = hx.export(wrap(Scaled().eval()), torch.randn(2, 6), dynamic={"image": {0: "n"}})
    assert [each.name for each in program.model.graph.inputs] == ["image"]
    assert weight in program.model.graph.initializers


def test_a_decorated_function_may_take_other_inputs_than_the_function_in_it():
    def scale(rows, columns):
        return rows * columns

    @functools.wraps(scale)
    def model(x):
        return x * scale(*x.shape)

    program = hx.export(model, torch.randn(2, 6), dynamic=[{0: "n", 1: "m"}])
    x = torch.randn(3, 5)
    torch.testing.assert_close(program.run(x), x * 15)

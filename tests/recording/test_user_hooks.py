"""What the user did to the model counts: hooks, and forwards replaced by hand."""

from __future__ import annotations

import functools
import importlib
import sys
import textwrap
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from called import asked
from torch import nn

import hx
from hx import converter


def conv(op, self, input):
    return op.Conv(input, self.weight, self.bias)


CONV = converter("torch.nn.Conv2d")(conv)


@pytest.fixture
def x():
    return torch.randn(1, 1, 5, 5)


def model():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 1, 3))


# Hooks.


def test_pre_hooks_that_replace_inputs(x):
    net = model()
    net[2].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    net[1].register_forward_pre_hook(lambda m, args: torch.tanh(args[0]))  # not a tuple: allowed
    net.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    assert asked(net, x, CONV).ops == ["Add", "Conv", "Tanh", "Relu", "Mul", "Conv"]


def test_hooks_that_replace_outputs(x):
    net = model()
    net[0].register_forward_hook(lambda m, args, out: out.abs())
    net[1].register_forward_hook(lambda m, args, out: None)  # leaves it
    net[2].register_forward_hook(lambda m, args, out: out + args[0].sum())
    net.register_forward_hook(lambda m, args, out: {"y": out, "double": out * 2})
    program = asked(net, x, CONV)
    assert program.ops == ["Conv", "Abs", "Relu", "Conv", "ReduceSum", "Add", "Mul"]
    assert [v.name for v in program.model.graph.outputs] == ["y", "double"]


def test_hooks_with_kwargs_in_order(x):
    class Scaled(nn.Module):
        def forward(self, x, *, scale=1.0, shift=None):
            return x * scale if shift is None else x * scale + shift

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scaled = Scaled()

        def forward(self, x):
            return self.scaled(x, scale=3.0)

    net = Model()
    net.scaled.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {**kwargs, "shift": args[0].abs()}), with_kwargs=True
    )
    net.scaled.register_forward_hook(
        lambda m, args, kwargs, out: out - kwargs["shift"], with_kwargs=True
    )
    net.scaled.register_forward_hook(lambda m, args, out: F.relu(out), prepend=True)
    assert asked(net, x).ops == ["Abs", "Mul", "Add", "Relu", "Sub"]


def test_a_converter_of_a_module_leaves_its_hooks_alone(x):
    """The converter speaks for forward, which stands between the hooks."""
    net = model()
    net[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    net[0].register_forward_hook(lambda m, args, out: out * 3)
    assert asked(net, x, CONV).ops == ["Mul", "Conv", "Mul", "Relu", "Conv"]


def test_hooks_of_all_modules(x):
    first = nn.modules.module.register_module_forward_pre_hook(
        lambda m, args: (args[0] * 2,) if isinstance(m, nn.ReLU) else None
    )
    second = nn.modules.module.register_module_forward_hook(
        lambda m, args, out: out + 1 if isinstance(m, nn.ReLU) else None
    )
    try:
        assert asked(model(), x, CONV).ops == ["Conv", "Mul", "Relu", "Add", "Conv"]
    finally:
        first.remove()
        second.remove()
    assert asked(model(), x, CONV).ops == ["Conv", "Relu", "Conv"]


def test_hooks_that_only_look_and_hooks_that_remove_themselves(x):
    seen = []
    net = model()
    net[0].register_forward_hook(lambda m, args, out: seen.append(out.shape))
    handle = net[1].register_forward_hook(lambda m, args, out: handle.remove())
    program = asked(net, x, CONV, verify=False)
    assert program.ops == ["Conv", "Relu", "Conv"]
    assert len(seen) == 1
    assert len(net[1]._forward_hooks) == 1  # the model is as it was before


def test_hooks_that_always_run_and_exceptions(x):
    called = []
    net = model()
    net[1].register_forward_hook(lambda m, args, out: called.append(1), always_call=True)
    net[1].register_forward_hook(lambda m, args, out: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        asked(net, x)
    assert called == [1]


# Forwards of instances.


def test_a_forward_replaced_on_an_instance(x):
    net = model()
    net[1].forward = lambda x: torch.sigmoid(x)
    net[0].forward = functools.partial(F.conv2d, weight=net[0].weight * 2)
    assert asked(net, x, CONV).ops == ["Conv", "Sigmoid", "Conv"]
    assert "forward" in vars(net[0])

    def doubled(self, input):
        return nn.Conv2d.forward(self, input) * 2

    net = model()
    net[0].forward = doubled.__get__(net[0])
    assert asked(net, x, CONV).ops == ["Conv", "Mul", "Relu", "Conv"]


def test_a_forward_wrapped_on_an_instance(x):
    net = model()
    for module in net:
        original = module.forward

        @functools.wraps(original)
        def wrapped(*args, _original=original, **kwargs):
            return _original(*args, **kwargs) + 1

        module.forward = wrapped
    assert asked(net, x, CONV).ops == ["Conv", "Add", "Relu", "Add", "Conv", "Add"]


def test_mocks_on_an_instance(x):
    net = model()
    with mock.patch.object(net[1], "forward", side_effect=torch.tanh) as fake:
        assert asked(net, x, CONV).ops == ["Conv", "Tanh", "Conv"]
    assert fake.called
    with mock.patch.object(net[1], "forward", wraps=net[1].forward) as fake:
        assert asked(net, x, CONV).ops == ["Conv", "Relu", "Conv"]
    assert fake.called


# Forwards of classes.

LAYERS = """
    import torch
    from torch import nn
    from .parts import swirl

    class Act(nn.Module):
        def forward(self, x):
            return swirl(x)

    class Heir(Act):
        pass

    def decorate(function):
        def inner(self, x):
            return function(self, x)
        return inner

    class Decorated(nn.Module):
        @decorate
        def forward(self, x):
            return torch.special.bessel_j0(x)

    class Borrowed(nn.Module):
        forward = Act.forward
    """
PARTS = """
    import torch

    def swirl(x):
        return torch.special.bessel_j0(x)
    """


@pytest.fixture
def acme(tmp_path, monkeypatch):
    folder = tmp_path / "site" / "acmehook"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from .parts import swirl\n")
    (folder / "layers.py").write_text(textwrap.dedent(LAYERS))
    (folder / "parts.py").write_text(textwrap.dedent(PARTS))
    monkeypatch.syspath_prepend(str(folder.parent))
    importlib.invalidate_caches()
    yield importlib.import_module("acmehook.layers")
    for name in [n for n in sys.modules if n.partition(".")[0] == "acmehook"]:
        del sys.modules[name]


ACT = converter("acmehook.layers.Act")(lambda op, self, x: op.Cos(x))


def ops(module, *converters):
    return asked(module, torch.randn(2, 3), *converters, verify=False).ops


def test_a_forward_replaced_on_a_class_is_the_model(acme, monkeypatch):
    assert ops(acme.Act(), ACT) == ops(acme.Heir(), ACT) == ["Cos"]
    monkeypatch.setattr(acme.Act, "forward", lambda self, x: torch.tanh(x))
    assert ops(acme.Act(), ACT) == ops(acme.Heir(), ACT) == ["Tanh"]


def test_a_forward_of_torch_replaced_on_a_class(monkeypatch, x):
    relu = converter("torch.nn.ReLU")(lambda op, self, input: op.Max(input, 0.0))
    assert asked(nn.ReLU(), x, relu).ops == ["Max"]
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, input: torch.sigmoid(input))
    assert asked(nn.ReLU(), x, relu).ops == ["Sigmoid"]
    monkeypatch.setattr(nn.ReLU, "forward", nn.Tanh.forward)
    assert asked(nn.ReLU(), x, relu).ops == ["Tanh"]


def test_a_forward_wrapped_on_a_class(acme, monkeypatch):
    original = acme.Act.forward

    @functools.wraps(original)
    def wrapped(self, x):
        return original(self, x) + 1

    monkeypatch.setattr(acme.Act, "forward", wrapped)
    assert ops(acme.Act(), ACT) == ["Cos", "Add"]

    def plainly(self, x):
        return original(self, x) * 2

    # Without functools.wraps nothing leads to what it calls, and that is opened.
    monkeypatch.setattr(acme.Act, "forward", plainly)
    swirl = converter("acmehook.parts.swirl")(lambda op, x: op.Sin(x))
    assert ops(acme.Act(), ACT, swirl) == ["Sin", "Mul"]

    @functools.wraps(original)
    def instead(self, x):
        return torch.tanh(x)

    monkeypatch.setattr(acme.Act, "forward", instead)
    assert ops(acme.Act(), ACT) == ["Tanh"]


def test_mocks_on_a_class(acme):
    def tanh(self, x):
        return torch.tanh(x)

    with mock.patch.object(acme.Act, "forward", new=tanh):
        assert ops(acme.Act(), ACT) == ["Tanh"]
    with mock.patch.object(acme.Act, "forward", autospec=True, side_effect=tanh):
        assert ops(acme.Act(), ACT) == ["Tanh"]
    with mock.patch.object(acme.Act, "forward", side_effect=torch.tanh):
        assert ops(acme.Act(), ACT) == ["Tanh"]
    with mock.patch.object(acme.Act, "forward", new=torch.nn.Tanh.forward):
        assert ops(acme.Act(), ACT) == ["Tanh"]
    assert ops(acme.Act(), ACT) == ["Cos"]


def test_decorated_and_borrowed_forwards_are_the_classes_own(acme, lacking):
    one = converter("acmehook.layers.Decorated")(lambda op, self, x: op.Cos(x))
    assert ops(acme.Decorated(), one) == ["Cos"]
    one = converter("acmehook.layers.Borrowed")(lambda op, self, x: op.Cos(x))
    assert ops(acme.Borrowed(), one) == ["Cos"]
    registry = lacking("bessel_j0", "special_bessel_j0")
    registry.add(one)
    with pytest.raises(hx.MissingConverters):
        hx.export(acme.Act(), torch.randn(2, 3), packs=registry)


def test_functions_of_packages_replaced_by_the_user(acme, monkeypatch):
    import acmehook

    swirl = converter("acmehook.parts.swirl")(lambda op, x: op.Cos(x))
    public = converter("acmehook.swirl")(lambda op, x: op.Cos(x))
    assert ops(acme.Act(), swirl) == ops(acme.Act(), public) == ["Cos"]

    def mine(x):
        return torch.tanh(x)

    monkeypatch.setattr(acmehook.parts, "swirl", mine)
    monkeypatch.setattr(acmehook, "swirl", mine)
    assert ops(lambda x: acmehook.parts.swirl(x), swirl) == ["Tanh"]
    assert ops(lambda x: acmehook.swirl(x), public) == ["Tanh"]
    assert ops(mine, public) == ["Tanh"]


def test_functions_of_torch_replaced_by_the_user(monkeypatch):
    monkeypatch.setattr(F, "gelu", lambda x, approximate="none": torch.tanh(x))
    assert ops(nn.GELU()) == ["Tanh"]
    assert ops(lambda x: F.gelu(x)) == ["Tanh"]

    original = torch.relu
    monkeypatch.setattr(torch, "relu", lambda x: original(x) + 1)
    assert ops(lambda x: torch.relu(x)) == ["Relu", "Add"]


class Shifted:
    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs) + 1


def around(function):
    return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs) + 1)


# Each calls by its name in the module what stands there; the last has no `def` of its own.
CALLS = {
    "relu": lambda x: F.relu(x),
    "softmax": lambda x: F.softmax(x, -1),
    "normalize": lambda x: F.normalize(x),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "gelu": lambda x: F.gelu(x),
}


@pytest.mark.parametrize("wrap", [around, Shifted, lambda f: functools.partial(Shifted(f))])
@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_torch_that_is_wrapped_is_called_once(monkeypatch, name, wrap):
    call, x = CALLS[name], torch.randn(3, 4)
    plain = call(x)
    monkeypatch.setattr(F, name, wrap(getattr(F, name)))
    assert torch.equal(call(x), plain + 1)
    program = hx.export(call, x)  # which is proved
    assert torch.allclose(program.run(x), plain + 1, atol=1e-5)


def test_a_function_of_torch_is_replaced_by_one_that_calls_its_operator(monkeypatch):
    monkeypatch.setattr(F, "softmax", lambda x, dim: torch.softmax(x * 3, dim))
    assert ops(lambda x: F.softmax(x, 1)) == ["Mul", "Softmax"]


def test_what_torch_itself_calls_is_replaced_between_two_exports(monkeypatch):
    weights = torch.randn(24, 8), torch.randn(24), None, None, False, 0.0, torch.randn(8, 8)

    def attend(x):
        bias = torch.zeros(8)
        return F.multi_head_attention_forward(x, x, x, 8, 2, *weights, bias, training=False)[0]

    x, softmax = torch.randn(3, 1, 8), F.softmax
    assert hx.export(attend, x).proof.ok
    monkeypatch.setattr(F, "softmax", lambda x, dim: softmax(x * 3, dim))
    assert hx.export(attend, x).proof.ok


def test_what_was_replaced_is_told(acme, monkeypatch):
    monkeypatch.setattr(acme.Act, "forward", lambda self, x: torch.tanh(x))
    program = asked(acme.Act(), torch.randn(2), ACT, verify=False)
    assert any("acmehook.layers.Act" in note for note in program.report.notes)
    program = asked(nn.ReLU(), torch.randn(2), ACT, verify=False)
    assert not any("replaced" in note for note in program.report.notes)

"""Other activations and other gradients, for the time of a block."""

from __future__ import annotations

import contextlib
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx
from hx.errors import UsageError


def gradients(net, loss):
    net.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in net.parameters()]


def test_a_doubled_loss_doubles_every_earlier_gradient(net, x):
    plain = gradients(net, net(x).mean())
    with hx.record(net, gradients=True) as before:
        net(x).mean().backward()
    loss = net(x).mean()
    with hx.rewrite(loss, gradient=lambda g: 2 * g) as rewrite:
        twice = gradients(net, loss)
    assert rewrite.count == 1
    torch.testing.assert_close(twice, [2 * g for g in plain])
    with hx.record(net, gradients=True) as rec:
        loss = net(x).mean()
        with hx.rewrite(loss, gradient=lambda g: 2 * g):
            loss.backward()
    for name in before:
        torch.testing.assert_close(rec[name].gradient, 2 * before[name].gradient)


def test_a_zeroed_bias_gradient_and_no_negative_one_at_the_relu(net, x):
    with hx.record(net, "relu", gradients=True) as rec:
        gradients(net, 1 - net(x).mean())
    torch.testing.assert_close(net.linear.bias.grad, torch.full((5,), -0.2))
    assert rec["relu"].gradient.min() < 0
    with (
        hx.rewrite(net, "linear.bias", gradient=torch.zeros_like),
        hx.rewrite(net, "relu", gradient=lambda g: g.clamp(min=0)),
        hx.record(net, "relu", "conv", gradients=True) as rec,
    ):
        gradients(net, 1 - net(x).mean())
    assert torch.equal(net.linear.bias.grad, torch.zeros(5))
    assert rec["relu"].gradient.min() >= 0 and rec["relu"].gradient.max() > 0
    assert rec["conv"].gradient.min() >= 0  # it came from there
    gradients(net, 1 - net(x).mean())
    torch.testing.assert_close(net.linear.bias.grad, torch.full((5,), -0.2))


def test_every_parameters_gradient_is_clipped_to_a_range(net, x):
    plain = gradients(net, net(x).sum())
    with hx.rewrite(net, nn.Parameter, gradient=lambda g: g.clamp(-0.1, 0.1)):
        clipped = gradients(net, net(x).sum())
    assert max(g.abs().max() for g in plain) > 0.1
    torch.testing.assert_close(clipped, [g.clamp(-0.1, 0.1) for g in plain])
    with hx.rewrite(net, "*.bias", gradient=torch.zeros_like):
        some = gradients(net, net(x).sum())
    assert [bool(g.any()) for g in some] == [True, False, True, False]
    torch.testing.assert_close(gradients(net, net(x).sum()), plain)


def test_a_returned_value_replaces_a_modules_input_and_output(net, x):
    with hx.rewrite(net, "relu", input=lambda t: -t):
        negative = net(x)
    y = net.conv(x)
    torch.testing.assert_close(negative, net.linear(F.relu(-y).flatten(1)))
    with hx.rewrite(net, "relu", output=lambda t: t * 2), hx.record(net, "relu") as rec:
        doubled = net(x)
    torch.testing.assert_close(rec["relu"].output, 2 * F.relu(y).detach())
    torch.testing.assert_close(doubled, net.linear(2 * F.relu(y).flatten(1)))
    with hx.rewrite(net, "linear", output=torch.ones(1, 5)):  # a value, no function
        assert torch.equal(net(x), torch.ones(1, 5))
    with hx.rewrite(net, "relu", input=lambda t: None, output=lambda t: None) as rewrite:
        torch.testing.assert_close(net(x), net.linear(F.relu(y).flatten(1)))
    assert rewrite.count == 0


def test_arguments_by_position_and_by_name():
    class Add(nn.Module):
        def forward(self, a, b):
            return a + b

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.add = Add()

        def forward(self, a, b):
            return self.add(a, b), self.add(a=a, b=b), self.add(a, b=b)

    model, one, two = Outer(), torch.tensor(1.0), torch.tensor(2.0)
    with hx.rewrite(model, "add", input=lambda a, b: a * 10):
        assert [float(t) for t in model(one, two)] == [12, 12, 12]
    with hx.rewrite(model.add, "", input=lambda a, b: (b, b * 10)):
        assert float(model.add(one, two)) == 22


def test_rewrites_of_one_place_run_in_the_order_of_their_blocks(net, x):
    order = []

    def step(name):
        def tell(t):
            order.append(name)
            return t + 1 if name != "g" else t

        return tell

    with (
        hx.rewrite(net, "relu", input=step("in1"), output=step("out1"), gradient=step("back1")),
        hx.record(net, "relu") as rec,
        hx.rewrite(net, "relu", input=step("in2"), output=step("out2"), gradient=step("back2")),
    ):
        net(x).sum().backward()
    assert order == ["in1", "in2", "out1", "out2", "back1", "back2"]
    torch.testing.assert_close(rec["relu"].inputs, net.conv(x).detach() + 2)
    torch.testing.assert_close(rec["relu"].output, F.relu(rec["relu"].inputs) + 2)


@pytest.mark.parametrize("kind", ["module", "parameter", "tensor"])
def test_gradients_too_whatever_it_is_that_was_named(kind):
    model = nn.Sequential(nn.Linear(3, 5))

    def bias_gradient(*steps):
        model.zero_grad()
        loss = model(torch.ones(1, 3)).sum() if kind == "tensor" else None
        place = {"module": (model, "0"), "parameter": (model, "0.bias"), "tensor": (loss,)}[kind]
        with contextlib.ExitStack() as blocks:
            for step in steps:
                blocks.enter_context(hx.rewrite(*place, gradient=step))
            (model(torch.ones(1, 3)).sum() if loss is None else loss).backward()
        return model[0].bias.grad.tolist()

    assert bias_gradient(torch.zeros_like, lambda g: g + 3) == [3] * 5
    assert bias_gradient(lambda g: g + 3, torch.zeros_like) == [0] * 5


@pytest.mark.parametrize("kind", ["module", "parameter", "tensor"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_recorded_gradient_is_what_came_out_of_all_rewrites(kind, inside):
    model = nn.Sequential(nn.Linear(3, 5))
    loss = model(torch.ones(1, 3))
    place = {"module": (model, "0"), "parameter": (model, "0.bias"), "tensor": (loss,)}[kind]
    rec = hx.record(*place, gradients=True)
    rewrites = [hx.rewrite(*place, gradient=lambda g, n=n: g * 0 + n) for n in (5, 7)]
    blocks = [*rewrites, rec] if inside else [rewrites[0], rec, rewrites[1]]
    with contextlib.ExitStack() as entered:
        for block in blocks:
            entered.enter_context(block)
        (loss if kind == "tensor" else model(torch.ones(1, 3))).sum().backward()
    assert set(rec[place[-1]].gradient.flatten().tolist()) == {7}


def test_a_tensor_that_was_named_meets_its_gradient_before_the_module_that_returned_it():
    model = nn.Sequential(nn.Linear(2, 2))
    with (
        hx.rewrite(model, "0", gradient=lambda g: g * 10),
        hx.record(model, "0", gradients=True) as rec,
    ):
        hidden = rec.tensor("hidden", model(torch.ones(1, 2)))
        with hx.rewrite(hidden, gradient=lambda g: g + 1):
            hidden.sum().backward()
    assert rec["hidden"].gradient.tolist() == [[2, 2]]
    assert rec["0"].gradient.tolist() == [[20, 20]]


def test_a_gradient_meets_the_outer_module_first():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    with (
        hx.record(model, "0", "0.0", gradients=True) as rec,
        hx.rewrite(model, "0.0", gradient=lambda g: g + 1),
        hx.rewrite(model, "0", gradient=lambda g: g * 10),
    ):
        model(torch.ones(1, 2)).sum().backward()
    assert rec["0"].gradient.tolist() == [[10, 10]]  # what the Sequential returned is the same
    assert rec["0.0"].gradient.tolist() == [[11, 11]]  # tensor as what the Linear did
    assert model[0][0].bias.grad.tolist() == [11, 11]


def test_functions_are_rewritten_wherever_they_are_called_from(net, x):
    with hx.rewrite(F.relu, output=lambda t: t * 0):
        torch.testing.assert_close(net(x)[0], net.linear.bias)
    with hx.rewrite(torch.Tensor.__add__, input=lambda a, b: (a, b * 100)):
        assert float(torch.ones(()) + 1) == 101
    assert float(torch.ones(()) + 1) == 2


def test_what_a_rewrite_calls_is_not_rewritten_itself(net, x):
    with (
        hx.rewrite(net, "relu", output=lambda t: net.relu(t) + F.relu(t)),
        hx.record(F.relu) as rec,
    ):
        net(x)
    assert rec[F.relu].count == 1


def test_another_module_in_the_place_of_an_output(net, x):
    code = nn.Sequential(
        nn.Flatten(), nn.Linear(160, 3), nn.Linear(3, 160), nn.Unflatten(1, (10, 4, 4))
    )
    with hx.rewrite(net, "relu", output=code):
        net(x).sum().backward()
    assert code[1].weight.grad is not None


def test_writes_in_place_behind_a_rewritten_gradient(net, x):
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.ReLU(inplace=True)

        def forward(self, x):
            return self.b(self.a(x) + 5)

    model = InPlace()
    with hx.record(model, gradients=True) as rec, hx.rewrite(model, "b", gradient=lambda g: g * 3):
        model(torch.ones(1, 2)).sum().backward()
    assert rec["a"].gradient.tolist() == rec["b"].gradient.tolist() == [[3, 3]]


def test_an_export_in_the_block_has_its_effect(net, x, tmp_path):
    import onnxruntime

    with (
        hx.rewrite(net, "relu", output=lambda t: t * 2),
        hx.rewrite(F.linear, output=lambda t: t + 1),
    ):
        hx.export(net.eval(), (x,), tmp_path / "m.onnx")
        expected = net(x)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    [found] = session.run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), expected.detach())


def test_other_threads_flow_as_before(net, x):
    expected, found = net(x), []

    def work():
        y = net(x)
        y.sum().backward()
        found.append((y, net.linear.bias.grad.clone()))

    with (
        hx.rewrite(net, "relu", output=torch.zeros_like),
        hx.rewrite(F.linear, output=torch.zeros_like),
        hx.rewrite(net, nn.Parameter, gradient=torch.zeros_like),
    ):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert not net(x).any()
    [(y, grad)] = found
    assert torch.equal(y, expected) and torch.equal(grad, torch.ones(5))


def test_nothing_to_do_is_said(net):
    with pytest.raises(UsageError, match="nothing to rewrite"):
        hx.rewrite(net, "relu")
    with pytest.raises(UsageError, match="hx.rewrite needs a place"):
        hx.rewrite(net, output=torch.zeros_like)
    with pytest.raises(UsageError, match=r"linear\.bias can only have another gradient"):
        hx.rewrite(net, "linear.bias", output=torch.zeros_like)

"""After the block all is as before: after exceptions anywhere, and interrupts at any line."""

from __future__ import annotations

import gc

import pytest
import torch
from interrupted import interrupted
from torch import nn
from torch.nn import functional as F

import hx
from hx import cleanup
from hx.torchworld import gradient_hooks, patching, stage


class Trouble(Exception):
    pass


def trouble(*args, **kwargs):
    raise Trouble


def all_kinds(net, how):
    """One block for each way to get a hook of one's own called."""
    return {
        "input": hx.rewrite(net, "relu", input=how),
        "output": hx.rewrite(net, "relu", output=how),
        "function": hx.rewrite(net, F.relu, output=how),
        "gradient": hx.rewrite(net, "relu", gradient=how),
        "parameter": hx.rewrite(net, "conv.weight", gradient=how),
        "reduce": hx.record(net, "relu", reduce=how),
        "tell": hx.watch(net, tell=how),
    }


KINDS = ["input", "output", "function", "gradient", "parameter", "reduce", "tell"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_in_a_hook_leaves_nothing(net, x, traces, kind):
    expected = net(x)
    with (
        hx.record(net, F.linear, gradients=True),
        hx.rewrite(net, "linear", output=lambda t: t + 1),
        pytest.raises(Trouble),
        all_kinds(net, trouble)[kind],
    ):
        net(x).sum().backward()
    assert not traces(net)
    # What was going on outside of the block goes on; what raised is not recorded.
    with hx.record(net, "relu") as rec:
        assert torch.equal(net(x), expected)
    assert list(rec) == ["relu"]
    net.zero_grad()
    net(x).sum().backward()
    assert net.conv.weight.grad is not None


def test_a_call_that_raised_is_no_call(net, x):
    with hx.record(net, "linear", "conv") as rec:
        with pytest.raises(RuntimeError):
            net.linear(torch.ones(3))
        assert "linear" not in rec
        net(x)
        with pytest.raises(RuntimeError):
            net.linear(torch.ones(3))
    assert rec["linear"].count == len(rec["linear"].calls) == 1


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_whatever_ends_the_block(net, x, traces, problem):
    with (
        pytest.raises(problem),
        hx.rewrite(net, nn.Parameter, gradient=torch.zeros_like),
        hx.record(net, F.relu, gradients=True),
    ):
        net(x).sum().backward()
        raise problem
    assert not traces(net)


def test_blocks_may_be_left_in_any_order(net, x):
    one = hx.record(net, F.relu, "conv").__enter__()
    two = hx.record(net, F.linear, "linear").__enter__()
    with torch.device("cpu"):  # another function mode
        one.__exit__()
        net(x)
        two.__exit__()
        assert torch._C._len_torch_function_stack() == 1
    assert list(one) == [] and list(two) == ["linear", "torch.nn.functional.linear"]


def test_a_block_that_is_forgotten_ends_with_its_owner(net, traces):
    rec = hx.record(net, F.relu, "conv").__enter__()
    assert traces()
    del rec
    gc.collect()
    assert not traces()


def test_users_own_hooks_stay(net, x):
    calls = []
    handles = [
        net.relu.register_forward_hook(lambda *a: calls.append("forward")),
        net.conv.weight.register_hook(lambda g: calls.append("weight")),
    ]
    with hx.rewrite(net, nn.Parameter, gradient=torch.zeros_like), hx.record(net, gradients=True):
        net(x).sum().backward()
    net(x).sum().backward()
    assert calls == ["forward", "weight"] * 2
    for handle in handles:
        handle.remove()


def test_activations_keep_no_hook_after_the_block(net, x):
    with hx.record(net, gradients=True), hx.rewrite(net, "linear", gradient=lambda g: g * 0):
        y = net(x)
    assert y._backward_hooks is None
    y.sum().backward()
    assert net.linear.bias.grad.tolist() == [1] * 5


def test_an_interrupt_at_any_line_of_coming_and_going_leaves_nothing(net, traces):
    code = nn.Module._call_impl.__code__

    def run():
        with hx.rewrite(net, "linear.bias", gradient=torch.zeros_like):  # noqa: SIM117
            with hx.record(net, F.relu, "conv", "linear.bias", gradients=True):
                pass

    at = 1
    while interrupted(run, at, [stage, gradient_hooks, patching, cleanup]):
        gc.collect(0)
        assert not traces(net), at
        assert nn.Module._call_impl.__code__ is code, at
        assert not stage._here.stage.watchers, at
        at += 1
    assert at > 100

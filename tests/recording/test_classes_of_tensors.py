"""Classes of tensors that a model makes of what flows through it, with methods of their own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import hx


class Plain(Tensor):
    def twice(self):
        return self * 2


class Rotation(Tensor):
    """Says itself which results are rotations, and what a product of them is."""

    @staticmethod
    def __new__(cls, data, kind="so3"):
        made = Tensor.as_subclass(data, cls)
        made.kind = kind
        return made

    def turned(self):
        return Tensor.as_subclass(self, Tensor) * 2

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ in ("mul", "__mul__"):
            one, other = (torch.Tensor.as_subclass(each, Tensor) for each in args)
            return cls(one + other * 3)
        data = Tensor.__torch_function__(func, (Tensor,), args, kwargs or {})
        if isinstance(data, Tensor) and func.__name__ in ("unsqueeze", "view", "__getitem__"):
            data = Tensor.as_subclass(data, cls)
            data.kind = "so3"
        return data


def widened(x):
    return Rotation(x).unsqueeze(0).turned()


def picked(x):
    turned = Rotation(x)[:, :2]
    assert turned.kind == "so3"
    return turned.turned()


def multiplied(x):
    return (Rotation(x) * Rotation(x.cos())).as_subclass(Tensor)


def plain(x):
    y = (x.as_subclass(Plain) + 1).cos()
    assert type(y) is Plain
    return y.twice().as_subclass(Tensor)


def sized(x):
    y = x.as_subclass(Plain)
    return torch.zeros(y.shape[:-1]) + x[..., 0] + y.size(0) + len(y)


def sized_of_either(x):
    y = torch.as_tensor(Tensor.as_subclass(x, Rotation))
    z = Tensor.as_subclass(y, Tensor)
    grown = y.expand(torch.broadcast_shapes(z.shape[:-1], x.shape[:-1]) + (3,))
    return torch.zeros(z.shape[:-1]) + z[..., 0], grown.as_subclass(Tensor) * 2


def of_a_constant(x):
    return x * torch.ones(3).as_subclass(Plain).twice().as_subclass(Tensor)


MODELS = [widened, picked, multiplied, plain, sized, sized_of_either, of_a_constant]


@pytest.mark.parametrize("model", MODELS)
def test_results_are_of_the_class_that_it_says(model):
    method = vars(Tensor).get("as_subclass")
    program = hx.export(model, torch.rand(4, 3), dynamic={"x": {0: "n"}})
    assert vars(Tensor).get("as_subclass") is method
    for n in (4, 1, 7):
        x = torch.rand(n, 3)
        assert_close(program.run(x), model(x))

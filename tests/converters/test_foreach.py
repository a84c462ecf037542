"""Calls that do one thing to each of several tensors, and what writes to each."""

import pytest
import torch

import hx

WEIGHT = torch.rand(3, 3) + 0.5


def several(x):
    return [x, x * 2]


CALLS = {
    "by lists": lambda x: torch._foreach_mul(several(x), [WEIGHT, x]),
    "by a number": lambda x: torch._foreach_mul(several(x), 2.5),
    "by numbers": lambda x: torch._foreach_div(several(x), [2.5, 3]),
    "by a tensor": lambda x: torch._foreach_mul(several(x), torch.tensor(2.5)),
    "alpha": lambda x: torch._foreach_add(several(x), [x, WEIGHT], alpha=3),
    "less": lambda x: torch._foreach_sub(several(x), [x, WEIGHT]),
    "powers": lambda x: torch._foreach_pow(several(x), [2, 3]),
    "of a number": lambda x: torch._foreach_pow(2.0, several(x)),
    "between": lambda x: torch._foreach_lerp(several(x), [WEIGHT, WEIGHT], 0.3),
    "between by weights": lambda x: torch._foreach_lerp(several(x), [WEIGHT] * 2, [x, WEIGHT]),
    "at least": lambda x: torch._foreach_clamp_min(several(x), [x, WEIGHT]),
    "factors": lambda x: torch._foreach_addcmul(
        several(x), [WEIGHT] * 2, several(x), torch.tensor([1.0, 2.0])
    ),
    "complex": lambda x: [
        torch.view_as_real(z) for z in torch._foreach_mul([torch.complex(x, x)], [WEIGHT * 1j])
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_each_of_several(name):
    x = torch.rand(3, 3)
    found = hx.export(CALLS[name], torch.rand(3, 3)).run(x)
    found = found if isinstance(found, (list, tuple)) else [found]
    torch.testing.assert_close(list(found), list(CALLS[name](x)), rtol=1e-5, atol=1e-5)


def test_each_is_written_to():
    def model(x):
        a, b = x * 2, x.clone()
        torch._foreach_mul_([a, b], [WEIGHT, x])
        torch._foreach_add_([a, b], 1.5)
        torch._foreach_exp_([b])
        torch._foreach_sub_([a, b], [b, a])
        torch._foreach_copy_([a[0]], [WEIGHT[0]])
        torch._foreach_zero_([x])
        return a, b, x

    x = torch.rand(3, 3)
    found = hx.export(model, torch.rand(3, 3)).run(x)
    torch.testing.assert_close(list(found), list(model(x)))


def test_each_of_several_derivatives():
    def model(x):
        gradient = torch.func.grad(lambda w: (x @ w).sin().sum())(WEIGHT)
        return torch._foreach_mul([gradient, gradient], [WEIGHT, WEIGHT])[0]

    x = torch.randn(5, 3)
    program = hx.export(model, torch.randn(4, 3), dynamic={"x": {0: "n"}})
    torch.testing.assert_close(program.run(x), model(x))

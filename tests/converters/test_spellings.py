"""Calls that say an operator's parameters by the names that its schema has, not Python's."""

import pytest
import torch

import hx

X, SQUARE = torch.randn(4, 6), torch.randn(2, 3, 3)
aten = torch.ops.aten

CALLS = {
    "mm": (lambda x: torch.mm(x, mat2=x.t()), X),
    "bmm": (lambda x: torch.bmm(x, mat2=x), SQUARE),
    "mv": (lambda x: torch.mv(x, vec=x[0]), X),
    "max of two": (lambda x: torch.max(x, other=x * x), X),
    "view": (lambda x: x.view(size=(3, 8)), X),
    "repeat": (lambda x: x.repeat(repeats=(2, 1)), X),
    "swapaxes": (lambda x: torch.swapaxes(x, axis0=0, axis1=1), X),
    "split_with_sizes": (lambda x: torch.split_with_sizes(x, split_sizes=[2, 4], dim=1), X),
    "split_copy": (lambda x: aten.split_copy.Tensor(x, split_size=2, dim=1), X),
    "split": (lambda x: aten.split.Tensor(x, split_size=4, dim=1), X),
    "elu": (lambda x: aten.elu.default(x, 0.5, 1.5, 2), X),
    "elu by names": (lambda x: aten.elu.default(x, alpha=0.5, scale=2, input_scale=0.5), X),
    "searchsorted": (lambda x: torch.searchsorted(x[0].abs().cumsum(0), self=0.5), X),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_by_the_names_of_the_schema(name):
    model, x = CALLS[name]
    assert hx.export(model, x).proof.ok


class Anything:
    def __eq__(self, other):
        return "as it likes"

    __hash__ = None


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * 2 if x + 1 == "nothing" else x * 3,
        lambda x: x * 2 if "nothing" in [x + 1, x[0]] else x * 3,
        lambda x: x * [x + 1, "nothing"].index("nothing"),
        lambda x: x * len((x + 1) == Anything()),
        lambda x: x * 2 if (x + 1) == [1, 2] else x * 3,
    ],
)
def test_a_tensor_compared_with_what_is_no_number(model):
    x = torch.randn(2, 3)
    torch.testing.assert_close(hx.export(model, torch.randn(2, 3)).run(x), model(x))

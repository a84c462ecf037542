"""einx writes code for the sizes that it gets: there, they stay sizes."""

from __future__ import annotations

import pytest
import torch

import hx

einx = pytest.importorskip("einx", minversion="0.4")

SIZES = [{"b": 1}, {"n": 1}, {"b": 5, "n": 9}]
DYNAMIC = {"x": {0: "b", 1: "n"}, "mask": {0: "b", 1: "n"}}


def bias(x, mask):
    places = torch.arange(x.shape[1])
    far = einx.subtract("j, i -> i j", places, places).abs().neg()
    return einx.multiply("h, i j -> h i j", torch.tensor([0.5, 0.25]), far) + x.sum() + mask.sum()


MODELS = {
    "where": lambda x, mask: einx.where("b j, b j d, ", mask, x, 0.0),
    "add": lambda x, mask: einx.add("b i d, b j d -> b i j d", x, x) + mask.sum(),
    "get_at": lambda x, mask: einx.get_at("b [n] d, b i -> b i d", x, mask.long() * 0),
    "id": lambda x, mask: einx.id("b n (h d) -> (b h) n d k", x, h=2, k=mask.shape[1]),
    "mean": lambda x, mask: einx.mean("b [n] d", x) + einx.dot("b n d, b n -> b d", x, mask * 1.0),
    "less": lambda x, mask: einx.less("b n d, b n", x, mask * 1.0),
    "bias": bias,
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_sizes_in_written_code_are_those_of_the_model(proved, model):
    given = torch.randn(2, 6, 8), torch.rand(2, 6) > 0.5
    program = proved(model, given, dynamic=DYNAMIC, sizes=SIZES, input_names=["x", "mask"])
    assert not program.report.escapes


def test_sizes_that_it_does_not_take_for_equal_stay_numbers_and_that_is_told():
    def model(x, mask):
        return einx.where("b j, b j d, ", mask, x, 0.0)

    given = torch.randn(2, 6, 8), torch.rand(2, 6) > 0.5
    dynamic = {"x": {0: "b", 1: "n"}, "mask": {0: "b", 1: "m"}}
    with pytest.raises(hx.HxError, match="einx"):
        hx.export(model, given, dynamic=dynamic, input_names=["x", "mask"])

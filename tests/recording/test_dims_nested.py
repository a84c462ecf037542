"""Sizes of arguments that are named tuples, or `*args` and `**kwargs`, as torch.export names them."""

import collections

import pytest
import torch

import hx
from hx.errors import UsageError

B = torch.export.Dim("b")
Scored = collections.namedtuple("Scored", "x score extra")


@pytest.mark.parametrize(
    "dynamic",
    [
        {"p": Scored({0: B}, {0: B}, None)},
        {"p": ({0: B}, {0: B}, None)},
        {"p": [{0: "b"}, {0: "b"}, None]},
        {"p": {"x": {0: "b"}, "score": {0: "b"}, "extra": None}},
        (({0: B}, {0: B}, None),),
    ],
    ids=["as it is", "by place", "in a list", "by field", "all by place"],
)
@pytest.mark.parametrize("deep", [False, True])
def test_a_named_tuple_of_which_some_fields_are_no_tensors(dynamic, deep):
    class Weighted(torch.nn.Module):
        def forward(self, p):
            p = p[0] if deep else p
            return p.x * p.score[:, None]

    given, x = Scored(torch.randn(3, 4), torch.randn(3), None), torch.randn(5, 4)
    if deep:
        given = [given]
        dynamic = {"p": [dynamic["p"]]} if isinstance(dynamic, dict) else (dynamic,)
    program = hx.export(Weighted(), (given,), dynamic=dynamic)
    assert [str(each.shape[0]) for each in program.model.graph.inputs] == ["b", "b"]
    other = Scored(x, x[:, 0], None)
    assert torch.allclose(program.run([other] if deep else other), x * x[:, :1])


def test_a_field_that_is_no_tensor_has_no_axes():
    with pytest.raises(UsageError, match="p_extra"):
        given = Scored(torch.randn(3, 4), torch.randn(3), None)
        hx.export(lambda p: p.x * 2, (given,), None, dynamic={"p": ({0: "b"}, {0: "b"}, {0: "b"})})


class Handing(torch.nn.Module):
    """Hands on all that it is given."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Bilinear(4, 4, 2)

    def forward(self, *xs, **kw):
        return self.inner(*xs, **kw)


@pytest.mark.parametrize(
    "dynamic",
    [{"xs": ({0: B}, {0: B})}, {"xs": [{0: "b"}, {0: "b"}]}, {"xs_0": {0: "b"}, "xs_1": {0: "b"}}],
)
def test_all_that_a_wrapper_is_given_is_said_as_one(dynamic):
    x = torch.randn(3, 4)
    program = hx.export(Handing(), (x, x + 1), dynamic=dynamic)
    assert [str(each.shape[0]) for each in program.model.graph.inputs] == ["b", "b"]


def test_all_that_a_wrapper_is_given_by_name_is_said_as_one():
    class Sum(torch.nn.Module):
        def forward(self, x, **more):
            return x + more["y"]

    x = torch.randn(3, 4)
    for model, args in ((Handing(), {"input1": x, "input2": x}), (Sum(), {"x": x, "y": x})):
        one, other = args
        wrapped = isinstance(model, Handing)
        said = (
            {"kw": {one: {0: B}, other: {0: B}}}
            if wrapped
            else {one: {0: B}, "more": {other: {0: B}}}
        )
        program = hx.export(model, (), None, kwargs=args, dynamic=said)
        assert [str(each.shape[0]) for each in program.model.graph.inputs] == ["b", "b"]


@pytest.mark.parametrize("extra", [[{0: B}, None], [{0: "b"}, None], [{0: "b"}]], ids=str)
def test_none_stands_beside_what_is_no_tensor_in_a_list_too(extra):
    def model(x, extra):
        return x + sum(each for each in extra if each is not None)

    x = torch.randn(3, 4)
    program = hx.export(model, (x, [x + 1, None]), dynamic={"x": extra[0], "extra": extra})
    assert [str(each.shape[0]) for each in program.model.graph.inputs] == ["b", "b"]

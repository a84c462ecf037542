"""Operators of torch.library: converted by each of their names, or opened where they are Python."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from called import Call, asked, speaks

import hx


@pytest.fixture(scope="module")
def library():
    made = torch.library.Library("hxtest", "DEF")
    made.define("twice(Tensor x, int k=2) -> Tensor")
    made.impl("twice", lambda x, k=2: x * k, "CompositeExplicitAutograd")

    @torch.library.custom_op("hxtest::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    yield thrice
    made._destroy()


@pytest.mark.parametrize(
    "target",
    [
        "hxtest::twice",
        "hxtest::twice.default",
        "torch.ops.hxtest.twice",
        "torch.ops.hxtest.twice.default",
    ],
)
def test_an_operator_of_a_library(library, target):
    mine = speaks(target, lambda op, x, k=2: op.Mul(x, float(k)))
    program = asked(Call(lambda m, x: torch.ops.hxtest.twice(x, 4)), torch.randn(3), mine)
    assert mine.calls == 1 and program.ops == ["Mul"]
    program = asked(Call(lambda m, x: torch.ops.hxtest.twice.default(x)), torch.randn(3), mine)
    assert mine.calls == 2


@pytest.mark.parametrize("target", ["hxtest::thrice", "torch.ops.hxtest.thrice"])
def test_a_custom_op_of_python(library, target):
    mine = speaks(target, lambda op, x: op.Mul(x, 3.0))
    for call in (lambda m, x: library(x), lambda m, x: torch.ops.hxtest.thrice(x)):
        program = asked(Call(call), torch.randn(3), mine)
        assert program.ops == ["Mul"]
        assert program.report.converters == {target: 1}
    assert mine.calls == 2


def test_an_operator_of_python_without_a_converter_is_opened(library):
    def forward(m, x):
        return torch.ops.hxtest.twice(x) + library(x)

    program = asked(Call(forward), torch.randn(3))
    assert program.ops == ["Mul", "Mul", "Add"]
    assert not program.report.escapes


def test_sizes_stay_sizes_within_an_operator_of_python():
    @torch.library.custom_op("hxtest::flattened", mutates_args=())
    def flattened(x: torch.Tensor) -> torch.Tensor:
        return F.relu(x).reshape(x.shape[0] * 2, -1)

    program = hx.export(lambda x: flattened(x) + 1, torch.randn(3, 4), dynamic={"x": {0: "n"}})
    assert not program.report.escapes
    x = torch.randn(5, 4)
    torch.testing.assert_close(program.run(x), flattened(x) + 1)


def test_sizes_stay_sizes_within_an_operator_that_is_composed_in_python():
    def rows(x, k):
        return F.relu(x).view(x.shape[0] * k, -1).amax(1)

    made = torch.library.Library("hxcomposed", "DEF")
    made.define("rows(Tensor x, int k) -> Tensor")
    made.impl("rows", rows, "CompositeImplicitAutograd")
    for operator in (torch.ops.hxcomposed.rows, torch.ops.hxcomposed.rows.default):
        program = hx.export(
            lambda x, call=operator: call(x, 2) + call(x, 1).sum(), torch.randn(3, 4),
            dynamic={"x": {0: "n"}},
        )  # fmt: skip
        assert program.proof.ok and not program.report.escapes
        x = torch.randn(5, 4)
        torch.testing.assert_close(program.run(x), rows(x, 2) + rows(x, 1).sum())
    made._destroy()


def test_an_operator_of_python_that_writes_to_its_argument_is_missing():
    @torch.library.custom_op("hxtest::raised", mutates_args=("x",))
    def raised(x: torch.Tensor) -> None:
        x.add_(1)
        x[0] = 2

    def model(x):
        y = x * 1
        raised(y)
        return y

    with pytest.raises(hx.MissingConverters, match="hxtest::raised"):
        hx.export(model, torch.randn(3, 4))


def test_an_operator_whose_kernel_goes_through_numpy_is_missing_by_its_name():
    @torch.library.custom_op("hxtest::by_numpy", mutates_args=())
    def by_numpy(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * 2)

    with pytest.raises(hx.MissingConverters, match="hands memory to other code") as caught:
        hx.export(lambda x: by_numpy(x) + by_numpy(x * 3), torch.randn(3))
    (missing,) = caught.value.missing
    assert missing.target == "hxtest::by_numpy" and missing.count == 2

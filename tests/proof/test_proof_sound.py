"""Mistakes that a proof has to find: in converters, in rows that are alike, and beyond the recorded values."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hx
from hx.samples.variations import resized


def with_converter(converter):
    packs = hx.Registry(hx.Registry.standing().packs)
    packs.add(converter)
    return packs


@hx.converter("torch.cumsum", cases=[hx.case("float32[n,3]", 0)])
def first_rows_alone(op, input, dim, *, dtype=None):
    sums = op.CumSum(input, op.constant(dim, torch.int64))
    ones = op.Add(op.Mul(input, 0.0), 1.0)
    row = op.CumSum(ones, op.constant(dim, torch.int64))
    return op.Mul(sums, op.cast(op.Less(row, 100.5), torch.float32))


@pytest.mark.parametrize("strict", [False, True])
def test_a_converter_that_is_wrong_at_large_sizes_is_no_evidence_for_itself(strict):
    def model(x):
        return torch.cumsum(x, 0)

    program = hx.export(
        model,
        torch.randn(5, 3),
        dynamic={"x": {0: "n"}},
        packs=with_converter(first_rows_alone),
        strict=strict,
    )
    assert program.report.promised == {"n": "n<=100"}
    assert any("a converter is wrong there" in note for note in program.report.notes)
    assert_close(program.run(x := torch.randn(100, 3)), model(x))
    with pytest.raises(hx.UsageError, match="n<=100"):
        program.run(torch.randn(101, 3))


@pytest.mark.parametrize("draw", [torch.rand, torch.randn])
def test_a_running_sum_of_many_numbers_is_right(draw):
    program = hx.export(lambda x: torch.cumsum(x, 0), draw(1 << 17, 1), dynamic={"x": {0: "n"}})
    assert program.proof.ok and not program.report.promised


def test_rows_of_a_batch_differ_where_one_row_was_recorded():
    for row in (
        torch.randn(1, 5),
        torch.randn(1, 5).half(),
        torch.tensor([[0.0, 1.5, 2.5, 7.5, 9]]),
    ):
        rows = resized(row, {0: 4})
        assert len(rows.unique(dim=0)) == 4
    boxes = resized(torch.tensor([[3.0, 1.5, 2.5, 7.5, 9.5]]), {0: 4})
    assert (boxes[:, 0] == 3).all() and (boxes[:, 3:] >= boxes[:, 1:3]).all()


def test_a_mean_over_the_batch_is_found_with_one_recorded_row():
    @hx.converter("torch.tanh", cases=[])
    def centred(op, input):
        mean = op.ReduceMean(input, op.constant([0]), keepdims=1)
        return op.Add(op.Tanh(input), op.Sub(mean, input))

    with pytest.raises(hx.VerificationError, match="ReduceMean|Add of torch.tanh"):
        hx.export(
            lambda x: torch.tanh(x),
            torch.randn(1, 5),
            dynamic={"x": {0: "batch"}},
            packs=with_converter(centred),
        )


def clipped(low, high):
    @hx.converter("torch.nn.functional.linear", cases=[])
    def linear(op, input, weight, bias=None):
        found = op.Add(op.MatMul(input, op.Transpose(weight, perm=[1, 0])), bias)
        return op.Clip(found, op.constant(low), op.constant(high))

    return linear


@pytest.mark.parametrize("bounds", [(-1e30, 40.0), (-40.0, 1e30), (-1e30, 2000.0)])
def test_a_bound_that_no_recorded_value_reaches_is_found(bounds):
    torch.manual_seed(0)
    packs = with_converter(clipped(*bounds))
    with pytest.raises(hx.VerificationError, match="large values"):
        hx.export(nn.Linear(4, 3), torch.randn(2, 4), dynamic={"input": {0: "n"}}, packs=packs)


def test_the_other_sign_is_tried():
    @hx.converter("torch.exp", cases=[])
    def of_positive(op, input):
        return op.Exp(op.Relu(input))

    with pytest.raises(hx.VerificationError, match="opposite values"):
        hx.export(lambda x: x.exp(), torch.rand(2, 4), packs=with_converter(of_positive))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.sqrt(),
        lambda x: x.exp(),
        lambda x: torch.special.entr(x),
        lambda x: x.sin().softmax(-1),
        lambda x: torch.searchsorted(x[0].sort().values, x),
        lambda x: (x * 7).to(torch.uint8),
    ],
)
def test_values_beyond_the_range_refuse_no_correct_model(model):
    program = hx.export(model, torch.rand(2, 4), dynamic={"x": {0: "n"}})
    assert program.proof.ok and not program.report.promised


def test_a_clock_is_no_rounding():
    def model(x):
        return x * (1 + time.time() % 1)

    with pytest.raises(hx.VerificationError):
        hx.export(model, torch.randn(2, 4))


@pytest.mark.parametrize(
    "number",
    [
        lambda n: pow(n, 3, 7),
        lambda n: pow(n, 200, 13),
        lambda n: pow(5, 3, n + 2),
        lambda n: pow(n, 2, -5),
        lambda n: pow(n, 0, 1),
    ],
)
def test_powers_of_sizes_with_a_modulus(number):
    def model(x):
        return x * number(x.shape[1])

    program = hx.export(model, torch.randn(2, 5), dynamic={"x": {1: "n"}})
    assert not program.report.escapes and not program.report.promised
    for n in (1, 3, 9, 50):
        x = torch.randn(2, n)
        assert_close(program.run(x), model(x))


def four_bits(loss):
    @hx.converter("torch.nn.functional.linear", domain="com.microsoft", loss=loss, cases=[])
    def linear(op, input, weight, bias=None):
        """Weights that four bits hold, and activations that the runtime rounds to eight."""
        rows, columns = 4, 32
        codes = op.constant(torch.arange(rows * columns // 2).reshape(rows, 1, 16).to(torch.uint8))
        scales = op.constant(torch.full((rows, 1), 0.125))
        sizes = {"K": columns, "N": rows, "bits": 4, "block_size": 32, "accuracy_level": 4}
        return op("com.microsoft", "MatMulNBits", input, codes, scales, version=1, **sizes,
                  results=[(input.dtype, [*input.shape[:-1], rows])])  # fmt: skip

    return linear


class OfFourBits(nn.Module):
    def __init__(self):
        super().__init__()
        codes = torch.arange(64).reshape(4, 16)
        each = torch.stack([codes & 15, codes >> 4], -1).flatten(1)
        self.weight = nn.Parameter((each - 8) * 0.125)

    def forward(self, x):
        return nn.functional.linear(x, self.weight).tanh()


def test_a_pack_says_what_it_loses_by_choice():
    torch.manual_seed(0)
    program = hx.export(OfFourBits(), torch.randn(3, 32), packs=with_converter(four_bits(0.05)))
    assert "loses" in program.proof.summary() and "may lose 5.0e-02" in program.proof.summary()


@pytest.mark.parametrize("loss", [0.0, 1e-4])
def test_what_is_lost_is_held_to_what_the_pack_says(loss):
    torch.manual_seed(0)
    with pytest.raises(hx.VerificationError, match="MatMulNBits"):
        hx.export(OfFourBits(), torch.randn(3, 32), packs=with_converter(four_bits(loss)))


def test_a_pack_test_finds_what_is_wrong_at_large_sizes():
    from hx.testing.cases import CaseFailure, runs_of

    (static, dynamic) = runs_of(first_rows_alone.__hx__, opsets=[20])
    static.check()
    with pytest.raises(CaseFailure, match=r"wrong at n=\d+: it is right for n<=100 only"):
        dynamic.check()


@pytest.mark.parametrize("layer", ["conv", "attention"])
def test_rows_that_are_lost_at_large_sizes_are_found_in_larger_layers(layer):
    @hx.converter("torch.relu", cases=[])
    def first_rows(op, input):
        ones = op.Add(op.Mul(input, 0.0), 1.0)
        row = op.CumSum(ones, op.constant(2, torch.int64))
        return op.Mul(op.Relu(input), op.cast(op.Less(row, 100.5), torch.float32))

    conv = nn.Conv1d(8, 16, 3, padding=1)

    def model(x):
        if layer == "conv":
            return torch.relu(conv(x))
        return torch.relu((x.mT @ x).softmax(-1))

    axes = {"x": {0: "batch", 2: "n"}}
    program = hx.export(
        model, torch.randn(16, 8, 20), dynamic=axes, packs=with_converter(first_rows)
    )
    assert program.report.promised == {"n": "n<=100"}


class Pictures(nn.Module):
    """Convolutions that refuse a picture below 15 by 15."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, 2)
        self.rest = nn.Sequential(nn.Conv2d(64, 128, 3, 2), nn.Conv2d(128, 64, 3, 2))

    def forward(self, x):
        return self.rest(torch.relu(self.first(x))).mean((2, 3))


def test_columns_that_are_lost_in_wide_pictures_are_found():
    @hx.converter("torch.relu", cases=[])
    def first_columns(op, input):
        column = op.CumSum(op.Add(op.Mul(input, 0.0), 1.0), op.constant(3, torch.int64))
        return op.Mul(op.Relu(input), op.cast(op.Less(column, 300.5), torch.float32))

    axes = {"x": {0: "batch", 2: "h", 3: "w"}}
    model, pictures = Pictures(), torch.randn(2, 3, 192, 192)
    program = hx.export(model, pictures, dynamic=axes, packs=with_converter(first_columns))
    assert program.report.promised == {"w": "w<=606"}  # the last columns reach no result
    proof = hx.export(model, pictures, dynamic=axes).proof
    assert proof.ok and min(high for _, high in proof.sizes.values()) > 130

"""Sizes of slices whose bounds count from the front at some sizes, and from the end at others."""

import pytest
import torch

import hx


def centre(x):
    """Crop to five columns, as many models do around a reference."""
    more = x.shape[1] - 5
    return x[:, more // 2 : -(more - more // 2)]


def all_but_eight(x):
    return x[:, : x.shape[1] - 8]


def last_ones(x):
    return x[:, 8 - x.shape[1] :]


def every_second(x):
    return x[:, 6 - x.shape[1] : x.shape[1] - 3 : 2]


@pytest.mark.parametrize("crop", [centre, all_but_eight, last_ones, every_second])
def test_the_size_is_a_formula(crop):
    def model(x):
        y = crop(x)
        return y, torch.arange(y.shape[1]) * 2

    program = hx.export(model, (torch.randn(2, 12),), dynamic={"x": {1: "t"}})
    assert not program.report.findings
    for t in range(1, 25):
        x = torch.randn(2, t)
        for found, expected in zip(program.run(x), model(x)):
            assert torch.equal(found, expected)


def test_a_question_about_it_is_one_about_sizes():
    def model(x):
        y = centre(x)
        return y * 2 if y.shape[1] == 3 else y

    program = hx.export(model, (torch.randn(2, 12),), dynamic={"x": {1: "t"}})
    assert all(finding.level != "open" for finding in program.report.findings)
    assert len(program.report.strategies) == 1
    x = torch.randn(2, 3)
    assert torch.equal(program.run(x), model(x))


def test_a_long_formula_is_not_shown():
    program = hx.export(centre, (torch.randn(2, 12),), dynamic={"x": {1: "t"}})
    assert "output float32[2,?]" in str(program.report)

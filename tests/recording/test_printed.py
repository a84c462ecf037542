"""A model that prints what flows through it."""

from __future__ import annotations

import torch
from torch.testing import assert_close

import hx


def test_how_a_tensor_is_printed_is_one_number_that_leaves_and_no_work(line_of):
    def model(x):
        said.append(str(x.cos()))
        print(x)
        return x * 2

    said = []
    program = hx.export(model, torch.rand(4, 3), dynamic={"x": {0: "n"}})
    assert said[0].startswith("tensor([[0.")
    assert {escape.kind for escape in program.report.escapes} == {"repr"}
    assert {escape.where.line for escape in program.report.escapes} == {
        line_of(model, "said.append"),
        line_of(model, "print"),
    }
    x = torch.rand(7, 3)
    assert_close(program.run(x), model(x))

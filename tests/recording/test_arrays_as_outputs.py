"""Models whose outputs are arrays of NumPy."""

import numpy as np
import torch

import hx


def test_arrays_are_outputs():
    def model(x):
        return {"doubled": (x * 2).numpy(), "labels": ["a", "b"], "sum": (x + 1).sum(0)}

    program = hx.export(model, (torch.randn(2, 3),), dynamic={"x": {0: "n"}})
    assert [each["name"] for each in program.report.outputs] == ["doubled", "sum"]
    x = torch.randn(5, 3)
    found = program.run(x)
    torch.testing.assert_close(found["doubled"], x * 2)
    torch.testing.assert_close(found["sum"], (x + 1).sum(0))


def test_one_array_that_numpy_computed():
    def model(x):
        return np.maximum(x.numpy(), 0)

    program = hx.export(model, (torch.randn(2, 3),), dynamic={"x": {0: "n"}})
    assert [each["name"] for each in program.report.outputs] == ["output"]
    x = torch.randn(4, 3)
    torch.testing.assert_close(program.run(x), x.relu())

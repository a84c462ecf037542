"""Windows and interpolated curves that NumPy computes for a size: they are followed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

WINDOWS = ("hanning", "hamming", "blackman", "bartlett")


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_as_long_as_a_size(proved, name):
    def model(x):
        return x * torch.from_numpy(getattr(np, name)(x.shape[0])).float()[:, None]

    sizes = [{"n": 1}, {"n": 2}, {"n": 17}, {"n": 200}]
    program = proved(model, torch.randn(12, 4), dynamic={"x": {0: "n"}}, sizes=sizes)
    assert not {e.kind for e in program.report.escapes} & {"from_numpy", "int", "float", "range"}


CURVES = {
    "between": lambda t: np.interp(t, [0, 0.5, 1], [0.0, 1.0, 0.25]),
    "beyond": lambda t: np.interp(2 * t - 0.5, np.array([0.0, 0.3, 1.0]), [3.0, 1.0, 2.0]),
    "beyond, with ends": lambda t: np.interp(3 * t - 1, [0, 1], [1, 2], left=-1.0, right=5.0),
}


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_at_places_that_follow_from_a_size(proved, name):
    def model(x):
        curve = CURVES[name](np.linspace(0, 1, x.shape[0])).astype(np.float32)
        return x * torch.from_numpy(curve)[:, None]

    sizes = [{"n": 2}, {"n": 17}, {"n": 200}]
    program = proved(model, torch.randn(12, 4), dynamic={"x": {0: "n"}}, sizes=sizes)
    assert not {e.kind for e in program.report.escapes} & {"from_numpy", "int", "float", "range"}

"""Places below, above and on the diagonal that NumPy counts for a size: they are followed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

MODELS = {
    "below": lambda x: (x @ x.T)[np.tril_indices(x.shape[0])],
    "above": lambda x: x[np.triu_indices(x.shape[0], k=1, m=4)],
    "on it": lambda x: (x @ x.T)[np.diag_indices(x.shape[0])],
    "of the smaller size": lambda x: x[np.tril_indices(min(x.shape))],
    "rows and columns": lambda x: (
        torch.from_numpy(np.stack(np.triu_indices(x.shape[0], -1))) + x.sum()
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_places_in_a_triangle(proved, name):
    sizes = [{"n": 1}, {"n": 5}, {"n": 17}]
    program = proved(MODELS[name], torch.randn(12, 4), dynamic={"x": {0: "n"}}, sizes=sizes)
    assert not {e.kind for e in program.report.escapes} & {"from_numpy", "int", "float", "range"}

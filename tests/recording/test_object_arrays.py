"""Arrays of NumPy that hold tensors: torch has none, and the model uses them as lists."""

from __future__ import annotations

import numpy as np
import torch


def test_rows_of_a_recurrence_are_kept_in_an_array_as_long_as_a_size(proved):
    def solve(x):
        n = x.shape[0]
        rows = np.empty(n, dtype=object)
        rows[0] = x[0]
        for i in range(1, n):
            rows[i] = x[i] - 0.5 * rows[i - 1]
        return torch.stack(rows.tolist())

    proved(solve, torch.randn(6, 3), dynamic={"x": {0: "n"}}, sizes=[{"n": 2}, {"n": 9}])

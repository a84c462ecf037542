"""Arrays of NumPy that a model holds and writes to: the export is that of the first call."""

import numpy as np
import torch
from torch import nn

import hx


class Arrays(nn.Module):
    def __init__(self):
        super().__init__()
        self.count, self.deep = np.zeros(1, np.int64), [np.ones((2, 2))]

    def forward(self, x):
        self.count += 1
        self.deep[0][0, 1] *= 2
        return x * int(self.count[0]) + float(self.deep[0].sum())


def test_they_are_restored_and_the_first_call_counts():
    net, x = Arrays(), torch.arange(6.0)
    program = hx.export(net, x)
    assert net.count.tolist() == [0] and net.deep[0].tolist() == [[1, 1], [1, 1]]
    assert program.proof.ok
    torch.testing.assert_close(program.run(x + 1), net(x + 1))

"""A tensor of one whole number: a size where PyTorch takes numbers, and else a tensor."""

import torch

import hx


def test_it_is_summed_as_a_tensor():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.sum(x, dim=(), keepdim=False)

    program = hx.export(Model(), torch.tensor(3))
    assert program.run(torch.tensor(5)).item() == 5

"""A model that changes what an export has to put back."""

import torch
from torch import nn


class Restless(nn.Module):
    """Buffers, random numbers, modes, hooks, tensors written in place; quick to export."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.fc = nn.Linear(2, 9000)  # large enough to be written ahead
        self.register_buffer("calls", torch.zeros(1))
        self.register_forward_hook(lambda m, args, out: out * 2)

    def begin(self, x):
        self.calls += 1
        torch.manual_seed(3)
        y = self.norm(self.conv(x)).relu_()
        y[:, 0] = 1.0
        return y

    def forward(self, x):
        return self.fc(self.begin(x).mean((2, 3)).reshape(x.shape[0], -1))

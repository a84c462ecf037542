"""Exports a function and runs the file on the arguments that it was exported with."""

import pytest
import torch

import hx


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.fixture
def exported():
    """exported(function, *tensors): what the file makes of them."""
    return lambda function, *args: hx.export(Call(function), args, None, verify=False).run(*args)

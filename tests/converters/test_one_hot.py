"""As many classes as the largest number says, in each run."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hx


class Classes(nn.Module):
    def __init__(self, behind):
        super().__init__()
        self.behind = behind

    def forward(self, x):
        return self.behind(F.one_hot(x))


BEHIND = {
    "as it is": lambda y: y,
    "counted": lambda y: y.float().sum(0),
    "as many as there are": lambda y: y * y.shape[-1],
}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("dynamic", [{"x": {0: "n"}}, None], ids=["any length", "one length"])
def test_a_largest_number_that_the_recording_never_saw(behind, dynamic):
    model = Classes(BEHIND[behind])
    program = hx.export(model, torch.tensor([0, 1, 4]), dynamic=dynamic)
    for numbers in ([0, 1, 1], [9, 0, 3], [0, 0, 0], *([[5], [1, 2, 3, 2, 1]] if dynamic else [])):
        x = torch.tensor(numbers)
        assert torch.equal(program.run(x), model(x)), numbers

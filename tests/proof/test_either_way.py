"""Questions about sizes that are too much work to try, with the same graph for either answer."""

import pytest
import torch

import hx


def copied(x):
    return x.contiguous()


def cut(x):
    return x[:64]


def in_rounds(x):
    for _ in range(x.shape[0] // 64):
        x = x + 1
    return x


def in_chunks(x):
    return torch.cat(x.split(64))


def asked_again(x):
    return x + 1 if x.shape[0] > 10**7 else x


def refused(x):
    raise ValueError("too large")


class Net(torch.nn.Module):
    def __init__(self, beyond):
        super().__init__()
        self.conv, self.beyond = torch.nn.Conv2d(3, 8, 3), beyond

    def forward(self, x):
        y, scale = self.conv(x).transpose(1, 2), 2.0
        if y.shape[0] >= 10**6:
            if self.beyond is None:
                scale = 3.0
            else:
                y = self.beyond(y)
        return y * scale


def levels(beyond):
    x = torch.randn(2, 3, 32, 32)
    report = hx.export(Net(beyond).eval(), x, dynamic={"x": {0: "batch"}}).report
    return [(each.level, "the same with the other answer" in each.text) for each in report.findings]


def test_a_copy_of_large_batches_is_no_open_question():
    assert levels(copied) == [("checked", True)]


@pytest.mark.parametrize("beyond", [None, cut, in_rounds, in_chunks, asked_again, refused])
def test_a_question_with_another_graph_behind_it_stays_open(beyond):
    found = levels(beyond)
    assert ("open", False) in found and ("checked", True) not in found

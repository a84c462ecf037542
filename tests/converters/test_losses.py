"""Losses whose numbers follow from sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import hx

CLASSES, SHARES = torch.tensor([0, 1, 2, 0]), torch.rand(9, 6)


def test_a_share_for_each_of_as_many_classes_as_there_are():
    def loss(x, target):
        return F.cross_entropy(x, target, label_smoothing=0.3)

    program = hx.export(loss, (torch.randn(4, 6), CLASSES), None, dynamic={"x": {1: "c>=3"}})
    assert not program.report.escapes
    for classes in (3, 6, 11):
        x = torch.randn(4, classes)
        torch.testing.assert_close(program.run(x, CLASSES), loss(x, CLASSES))


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y: F.huber_loss(x, y, delta=x.shape[0] // 3),
        lambda x, y: F.smooth_l1_loss(x, y, beta=x.shape[0] // 3),
        lambda x, y: F.cross_entropy(x, y, label_smoothing=1 / x.shape[0]),
    ],
)
def test_a_bound_that_a_size_says_in_steps(loss):
    sizes = {"x": {0: "n>=4"}, "y": {0: "n"}}
    program = hx.export(loss, (torch.randn(9, 6), SHARES), None, dynamic=sizes)
    for n in (4, 9, 12, 40):
        x, y = torch.randn(n, 6) * 9, torch.rand(n, 6)
        torch.testing.assert_close(program.run(x, y), loss(x, y))

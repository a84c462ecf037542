"""The place of the largest element, in code that does not run where there is none."""

import torch
from called import Plain

import hx


def best_of_each_class(x, scores, classes):
    out = torch.zeros(3, 4)
    for k in range(3):
        mine = classes == k
        if mine.any():
            out[k] = x[mine][scores[mine].argmax()]
    return out


def test_a_branch_without_elements_runs():
    x, scores, classes = torch.rand(7, 4), torch.rand(7), torch.tensor([0, 2, 2, 0, 1, 1, 1])
    program = hx.export(
        Plain(best_of_each_class),
        (x, scores, classes),
        dynamic={f"xs_{i}": {0: "n"} for i in range(3)},
    )
    assert not program.report.promised
    given = x[:2], scores[:2], torch.tensor([2, 2])
    torch.testing.assert_close(program.run(*given), best_of_each_class(*given))

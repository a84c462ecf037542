"""Suppression with other numbers of boxes than were recorded, and the order of what is left."""

import torch
import torchvision
from hx_torchvision import suppression

from hx.testing import Session


class PerClass(torch.nn.Module):
    def forward(self, boxes, scores, classes):
        return torchvision.ops.batched_nms(boxes, scores, classes, 0.4)


def inputs(n, seed):
    torch.manual_seed(seed)
    scores = torch.rand(n)
    if n <= 1000:  # the sort of the other way leaves open in which order equal ones come
        scores = (scores * 10).round() / 10
    return suppression.some_boxes(n, seed), scores, torch.randint(0, 5, (n,))


def session_of(program):
    import onnx_ir

    return Session(onnx_ir.to_proto(program.model).SerializeToString())


def test_few_boxes_and_many_take_the_way_that_torchvision_takes(hx_check):
    program = hx_check(
        PerClass(), inputs(60, 0), converters=[suppression.batched_nms],
        dynamic={name: {0: "n"} for name in ("boxes", "scores", "classes")},
    )  # fmt: skip
    assert not program.report.escapes
    session = session_of(program)
    for n in (0, 1, 2, 300, 1000, 1001, 1500):
        given = inputs(n, n)
        [kept] = session.run(dict(zip(("boxes", "scores", "classes"), given)))
        assert kept.tolist() == PerClass()(*given).tolist()


def test_boxes_below_zero_meet_as_they_do_in_torchvision(hx_check):
    """Classes are told apart by the largest coordinate alone."""
    boxes = torch.tensor([[0.0, 0, 10, 10], [-11, -11, -1, -1], [-11, -11, -1, -1]])
    given = boxes, torch.tensor([0.9, 0.8, 0.7]), torch.tensor([0, 1, 2])
    expected = PerClass()(*given).tolist()
    assert expected == [0, 2]
    hx_check(PerClass(), given, converters=[suppression.batched_nms])


def test_a_threshold_is_compared_as_a_double(hx_check):
    """The overlap is 3/10, which as a float32 is more than the double 0.3."""

    class Threshold(torch.nn.Module):
        def forward(self, boxes, scores):
            return torchvision.ops.nms(boxes, scores, 0.3)

    boxes = torch.tensor([[0.0, 0, 10, 1], [0, 0, 3, 1]])
    given = boxes, torch.tensor([0.9, 0.8])
    assert Threshold()(*given).tolist() == [0]
    program = hx_check(Threshold(), given, converters=[suppression.nms])
    assert session_of(program).run(dict(zip(("boxes", "scores"), given)))[0].tolist() == [0]

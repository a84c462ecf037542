"""A class of the library flows through the graph: into a model, between calls, and out of it."""

import acme_nn
import torch

import hx


class Settled(torch.nn.Module):
    def forward(self, batch):
        again = acme_nn.settle(batch, 2.0)
        return acme_nn.Masked(again.numbers * 2, again.counts & batch.counts)


def test_a_masked_batch_goes_in_and_out():
    batch = acme_nn.Masked(torch.randn(2, 3), torch.tensor([[True, False, True]] * 2))
    program = hx.export(Settled(), batch, dynamic={"batch_numbers": [0], "batch_counts": [0]})
    assert [v.name for v in program.model.graph.inputs] == ["batch_numbers", "batch_counts"]
    assert [v.name for v in program.model.graph.outputs] == ["numbers", "counts"]
    assert program.report.converters["acme_nn.settle"] == 1

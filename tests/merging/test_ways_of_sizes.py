"""Branches on several sizes: these lead along a way, or none do, and one answer gives others."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.shared.written import ops
from torch import nn
from torch.testing import assert_close

import hx
from hx.ir.dynamic_axes import axes
from hx.ir.recipe import Recipe
from hx.merging.branches import explore
from hx.recording.prepare import prepare
from hx.samples.elsewhere import Elsewhere

PLANE = {"x": {0: "b", 2: "h", 3: "w"}}


class Stages(nn.Module):
    """Asks of each size at every stage, as windows do that are shifted where there are several."""

    def __init__(self):
        super().__init__()
        self.mix = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(3))

    def forward(self, x):
        for mix in self.mix:
            shift = [0 if n <= 4 else 2 for n in x.shape[2:]]
            if sum(shift) > 0:
                x = torch.roll(x, shift, (2, 3)) + x.amax((2, 3), keepdim=True)
            x = F.avg_pool2d(mix(x), 2, ceil_mode=True)
        return x


def test_thresholds_on_two_axes_at_every_stage_are_one_graph(proved):
    near = [{"h": h, "w": w, "b": 2} for h in (3, 7, 15, 40) for w in (4, 8, 16, 33)]
    program = proved(Stages(), torch.randn(1, 4, 16, 16), PLANE, near)
    assert "If" in ops(program)
    assert program.report.promised == {}


class Refusing(nn.Module):
    """Refuses what is shorter than four; before that, it asks whether it is short for each layer."""

    def forward(self, x):
        for least in (4, 16):
            n = x.shape[2]
            if n <= least:
                if n < least // 2:
                    raise ValueError("too short")
                x = x + x.mean(2, keepdim=True)
            x = x * 2
        return x


def test_a_way_that_the_model_refuses_need_not_be_in_the_graph(proved):
    proved(Refusing(), torch.randn(1, 4, 32, 8), PLANE, [{"h": 8}, {"h": 12}, {"h": 17}])


def test_a_model_is_not_recorded_on_sizes_that_lead_nowhere(proved, monkeypatch):
    sizes, record = [], explore.Exploration.record

    def counted(self, tensors, *rest, **more):
        sizes.append(tuple(tensors["x"].shape))
        return record(self, tensors, *rest, **more)

    monkeypatch.setattr(explore.Exploration, "record", counted)
    proved(Stages(), torch.randn(1, 4, 16, 16), PLANE)
    assert len(sizes) <= 32
    assert all(n <= 1024 for shape in sizes for n in shape)


def test_sizes_that_lead_elsewhere_keep_what_need_not_change():
    request, _ = prepare(nn.Identity(), torch.zeros(1, 4, 64, 64), None, ["x"], PLANE, axes)
    other = Elsewhere(Recipe(request, request.call.tensors))
    low = [sizes for sizes in other.sizes if sizes["h"] <= 32]
    found = [t["x"].shape for t in other.at_some(low, lambda sizes: True)]
    assert len({*map(tuple, found)}) == len(found) == 3
    assert all(shape[0] == 1 and shape[3] == 64 for shape in found)


def test_a_model_is_not_run_on_what_takes_all_memory(proved, monkeypatch):
    fit, join = [], explore.Exploration.join

    def asked(self):
        for n in (64, 8192):
            fit.append(self._fit({"b": n, "h": n, "w": n}))
        return join(self)

    monkeypatch.setattr(explore.Exploration, "join", asked)
    proved(Stages(), torch.randn(1, 4, 16, 16), PLANE)
    assert fit[:2] == [True, False]


def hidden_by_values(x):
    y = x.softmax(-1)
    y = y * 2 if x.shape[0] > 3 else y + 1
    if not torch.all(x >= 0):
        y = x * 0.5
    return y


def hidden_by_zeros(x):
    y = x * (2 if x.shape[0] > 3 else 3)
    return y if torch.all(x >= 0) else x.tanh()


@pytest.mark.parametrize("recorded", [torch.randn, torch.rand])
@pytest.mark.parametrize("model", [hidden_by_values, hidden_by_zeros])
def test_the_other_side_of_a_size_is_tried_with_data_that_show_it(model, recorded):
    """Most data have something below zero, and what was asked of the size is nowhere to be seen."""
    program = hx.export(model, recorded(3, 4), dynamic={"x": {0: "b"}})
    for b in (1, 3, 4, 7):
        for x in (torch.randn(b, 4), torch.rand(b, 4)):
            assert_close(program.run(x), model(x))

"""Places that sizes say: some of them come to count from behind, or below 0."""

from __future__ import annotations

import pytest
import torch

import hx


def written(function):
    def model(x):
        y = x.clone()
        function(y)
        return y

    return model


def _set(y):
    y[:, 1:, y.size(2) - 5] = 0


def _add(y):
    y[1:, y.size(1) - 5] += 1


PLACES = {
    "beside a slice": lambda x: x[1:, x.size(1) - 5],
    "two of them": lambda x: x[x.size(0) - 5, x.size(1) - 5],
    "narrow": lambda x: x.narrow(1, x.size(1) - 5, 1),
    "set": written(_set),
    "add": written(_add),
    "backwards": lambda x: x[:, torch.arange(x.size(1) - 1, -1, -1)],
    "index_select": lambda x: x.index_select(1, torch.arange(x.size(1) - 1, -1, -1)),
    "from behind": lambda x: x[torch.arange(-x.size(0), 0)],
    "the last three": lambda x: x[:, torch.arange(x.size(1) - 3, x.size(1))],
    "int32": lambda x: x[torch.arange(x.size(0) - 1, -1, -1, dtype=torch.int32)],
}


@pytest.mark.parametrize("name", PLACES)
def test_places_that_sizes_say(name):
    function = PLACES[name]
    sizes = {"x": {0: "a", 1: "b", 2: "c"}}
    program = hx.export(function, torch.rand(5, 5, 5), None, dynamic=sizes)
    assert not program.report.promised
    for a in (3, 4, 5, 7):
        for b in (3, 4, 6):
            for c in (3, 5, 6):
                x = torch.rand(a, b, c)
                torch.testing.assert_close(program.run(x), function(x))


def test_a_count_that_goes_up_from_0_is_no_longer_for_it():
    program = hx.export(
        lambda x: x[torch.arange(x.size(0) - 1)], torch.rand(5), None, dynamic={"x": {0: "n"}}
    )
    assert "Cast" not in [node.op_type for node in program.model.graph]

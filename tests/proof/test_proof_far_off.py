"""Sizes far off from what was recorded: what code out of sight makes of a size may be the same at all
sizes near by."""

from __future__ import annotations

import itertools
import json
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hx
from hx.errors import UsageError

TABLE = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def by_numpy(n):
    return float(np.array(TABLE)[n // 100])


def by_text(n):
    return 1 + json.loads(json.dumps(n // 100))


def by_digits(n):
    return len(f"{n:03d}")


def by_generator(n):
    return next(TABLE[i] for i in [n // 100] * 2)


def by_islice(n):
    return len(list(itertools.islice(TABLE, n // 100))) + 1


def by_an_array(n):
    return np.zeros((n, 2)).nbytes // 1600 + 1


def by_a_thread(n):
    found = []
    thread = threading.Thread(target=lambda: found.append(2.0 if n > 99 else 3.0))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(
    "number",
    [by_numpy, by_text, by_digits, by_generator, by_islice, by_an_array, by_a_thread],
)
def test_numbers_that_are_the_same_at_all_sizes_near_by(number):
    def model(x):
        return x * number(x.shape[1])

    program = hx.export(model, torch.randn(2, 5), dynamic={"x": {1: "n"}})
    last = 999 if number is by_digits else 99
    assert program.report.promised == {"n": f"n<={last}"}
    (note,) = [each for each in program.report.notes if "the file is right for" in each]
    assert f"n<={last} only" in note and __file__ in note
    for n in (2, 64, 99):
        x = torch.randn(2, n)
        assert_close(program.run(x), model(x))
    with pytest.raises(UsageError, match=f"n<={last}"):
        program.run(torch.randn(2, last + 1))


def test_a_limit_that_leaves_out_what_is_wrong_far_off():
    def model(x):
        return x * by_numpy(x.shape[1])

    program = hx.export(model, torch.randn(2, 5), dynamic={"x": {1: "n<=64"}})
    assert not any("right for" in note for note in program.report.notes)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.mode((x * 4).round(), 1),  # any of those that come equally often
        lambda x: x.exp().cumsum(1).sin(),  # large sums, of which the last digits are what remains
        lambda x: (x * 30).tanh().cumsum(1).mul(1e3).tan(),
    ],
)
def test_what_rounding_and_ties_decide_far_off_is_no_mistake_of_the_file(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(2, 5), dynamic={"x": {1: "n"}})
    assert not program.report.promised and program.proof.ok


class Explodes(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(3, 4, nonlinearity="relu", batch_first=True)
        with torch.no_grad():
            self.rnn.weight_hh_l0.copy_(torch.full((4, 4), 0.3))

    def forward(self, x):
        return self.rnn(x)[0]


def test_a_network_that_explodes_far_off_is_right_near_by():
    program = hx.export(Explodes(), torch.randn(1, 5, 3), dynamic={"x": {1: "n"}})
    assert not program.report.promised and program.proof.ok


def test_a_size_that_would_take_long_is_not_tried_far_off():
    sizes = []

    def model(x):
        sizes.append(x.shape[0])
        return (x[:, :, None] * x[:, None]).sum((1, 2))

    hx.export(model, torch.randn(2, 3000), dynamic={"x": {0: "n"}})
    assert max(sizes) < 64


def test_what_is_wrong_near_by_as_well_is_refused():
    def model(x):
        return x * float(np.array([3.0, 1, 4, 1, 5, 9, 2, 6] * 200)[x.shape[1]])

    with pytest.raises(hx.VerificationError, match="n=6"):
        hx.export(model, torch.randn(2, 5), dynamic={"x": {1: "n"}})


def test_a_limit_is_tried_itself_where_it_is_not_as_far():
    def model(x):
        return x * float(np.array(TABLE)[x.shape[1] // 500])

    program = hx.export(model, torch.randn(2, 5), dynamic={"x": {1: "n<=600"}})
    assert program.report.promised == {"n": "n<=499"}


def test_a_file_that_does_not_run_far_off_is_promised_up_to_there():
    """Nor does what is recorded there; but neither rounding nor ties have a part in that."""

    @hx.converter("torch.erf", cases=[])
    def narrow(op, input):
        n = op.cast(op.cast(input.shape[1], torch.uint8), torch.int64)
        places = op.Range(op.constant(0, torch.int64), n, op.constant(1, torch.int64))
        return op.Add(op.Erf(input), op.Mul(op.cast(places, torch.float32), 0.0))

    packs = hx.Registry(hx.Registry.standing().packs)
    packs.add(narrow)
    program = hx.export(
        lambda x: torch.erf(x), torch.randn(2, 5), dynamic={"x": {1: "n"}}, packs=packs
    )
    assert program.report.promised == {"n": "n<=255"}
    assert any("it does not run there: Non-zero status" in note for note in program.report.notes)

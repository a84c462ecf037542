"""A number that is baked in is tried at sizes where it is another one, however far these are."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

import hx

BY_LENGTH = {"x": {0: "n"}}


def filled_up(x):
    """As long as a multiple of 32, which its covariance is divided by where nobody sees it."""
    x = F.pad(x, (0, 0, 0, -x.shape[0] % 32))
    return torch.view_as_real(torch.cov(torch.complex(x, x * x).mT))


def test_a_size_that_is_the_same_nearby_is_tried_where_it_is_not():
    program = hx.export(filled_up, torch.randn(8, 3), dynamic=BY_LENGTH)
    assert program.report.promised == {"n": "n<=32"}
    (escape,) = program.report.escapes
    assert escape.kind == "baked" and escape.beyond == "wrong at n=33"
    assert "what is baked in is another number" in program.report.notes[-1]
    for n in (2, 20, 32):
        assert_close(program.run(x := torch.randn(n, 3)), filled_up(x), rtol=1e-4, atol=1e-4)


def test_what_would_be_right_for_next_to_nothing_else_is_refused():
    with pytest.raises(hx.VerificationError, match=r"n<=32 in place of n"):
        hx.export(filled_up, torch.randn(30, 3), dynamic=BY_LENGTH)


def test_sequences_of_complex_numbers_are_padded_at_every_size():
    def model(x):
        x = F.pad(x, (0, 0, 0, -x.shape[0] % 32))
        z = torch.complex(x, -x)
        return torch.view_as_real(
            torch.nn.utils.rnn.pad_sequence([z, z[2:] * 2], padding_value=0.5)
        )

    program = hx.export(model, torch.randn(8, 3), dynamic=BY_LENGTH)
    assert not program.report.escapes
    for n in (1, 20, 33, 70):
        assert_close(program.run(x := torch.randn(n, 3)), model(x))

"""Exports whose proof goes to other sizes, and what they say of these."""

from __future__ import annotations

import pytest

import hx

BY_LENGTH = {"x": {0: "b", 1: "s"}}


def exported(model, x, dynamic=BY_LENGTH, **options):
    return hx.export(model, x, dynamic=dynamic, **options)


def refused(model, x, dynamic=BY_LENGTH):
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(model, x, dynamic=dynamic)
    return str(caught.value)


def beyond(program):
    (escape,) = program.report.escapes
    return escape.beyond

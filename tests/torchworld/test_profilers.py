"""An export that somebody profiles."""

from __future__ import annotations

import cProfile
import pstats
import random
import sys

import pytest
import torch

import hx


def scaled(x):
    return x * random.Random(str(x.shape[0]).strip()).random()


def test_the_profile_of_an_export_that_is_refused_is_whole():
    """The reason of a refusal is looked for in the code that runs, which also takes a profile."""
    with cProfile.Profile() as profile:
        with pytest.raises(hx.VerificationError):
            hx.export(scaled, torch.randn(3, 4), dynamic={"x": {0: "n"}})
        after_the_export()
    names = {function for _, _, function in pstats.Stats(profile).stats}
    assert {"scaled", "after_the_export"} <= names


def after_the_export():
    assert type(sys.getprofile()) is cProfile.Profile

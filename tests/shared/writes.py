"""Functions that write, and the tests of each: at fixed sizes, at others, from a batch of one."""

from __future__ import annotations

import pytest
import torch
from called import Single

FLOATS = {"x": {0: "b", 1: "n"}}
OTHER = [{"b": 1, "n": 6}, {"b": 5, "n": 7}]


class Written(dict):
    """Functions of x of shape [b, n], by name; called with one, it takes it in."""

    def __call__(self, function):
        self[function.__name__] = function
        return function

    def tests(self):
        """Three tests, to be named in the file of the functions."""
        each = pytest.mark.parametrize("name", self)

        @each
        def at_fixed_sizes(proved, name):
            proved(Single(self[name]), torch.randn(3, 6))

        @each
        def at_other_sizes(proved, name):
            proved(Single(self[name]), torch.randn(3, 6), dynamic=FLOATS, sizes=OTHER)

        @each
        def recorded_with_a_batch_of_one(proved, name):
            proved(Single(self[name]), torch.randn(1, 6), dynamic=FLOATS, sizes=OTHER)

        return at_fixed_sizes, at_other_sizes, recorded_with_a_batch_of_one

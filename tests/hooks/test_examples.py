"""The page of examples is run as it is written."""

from __future__ import annotations

import doctest
from pathlib import Path

import hx.hooks


def test_every_example_on_the_page_gives_what_it_says():
    page = Path(hx.hooks.__file__).with_name("README.md")
    done = doctest.testfile(str(page), module_relative=False)
    assert done.failed == 0 and done.attempted > 30

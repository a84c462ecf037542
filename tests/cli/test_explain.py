"""Codes of errors and their pages."""

from __future__ import annotations

import importlib
import re

import pytest

from hx import errors
from hx.error_pages import FOLDER, titles

# Modules with further error classes.
HOMES = ("hx.bench.child", "hx.hooks.record", "hx.packs.symbols", "hx.packs.targets")


def classes(of=errors.HxError):
    yield of
    for each in of.__subclasses__():
        yield from classes(each)


def test_each_error_has_a_code_with_a_page_and_each_page_an_error():
    for home in HOMES:
        importlib.import_module(home)
    ours = [each for each in classes() if each.__module__.startswith("hx")]
    assert {each.code for each in ours} == set(titles())
    own = [each.code for each in ours if each.__module__ == "hx.errors"]
    assert len(set(own)) == len(own), "two classes share a code"


def test_codes_follow_exit_codes():
    for each in classes():
        if each.__module__ == "hx.errors":
            assert each.code[2] == str(each.exit_code), each


def test_the_tree_of_errors_names_each_code():
    assert set(re.findall(r"HX[0-9]+", errors.__doc__)) == set(titles())


@pytest.mark.parametrize("code", titles())
def test_each_page_can_be_read_and_says_what_to_do(hx, code):
    done = hx("explain", code.lower())
    assert done.code == 0 and done.out.startswith(f"# {titles()[code]}\n")
    assert "## How to fix it" in done.out
    assert max(map(len, (FOLDER / f"{code}.md").read_text().splitlines())) <= 80


def test_all_codes_are_listed(hx):
    out = hx("explain").out
    assert all(f"{code}  {title}" in out for code, title in titles().items())
    assert hx("explain", "--json").json["codes"] == titles()
    done = hx("explain", "HX999")
    assert done.code == 2 and "there is no error 'HX999'" in done.err


def test_an_error_says_its_code_in_words_and_as_data(hx):
    done = hx("export", "models.py:nothing", "-o", "m.onnx", "--json")
    assert done.err.startswith("error[HX202]: ") and done.json["error"]["code"] == "HX202"
    done = hx("exprot")
    assert done.err.startswith("error[HX200]: ")

"""The rules of core/README.md: layers by contracts, and measures that may only improve."""

from __future__ import annotations

import subprocess
import sys

import architecture
import pytest

# The places that break a rule today. Lower a number as soon as it can be lower; never raise one.
LIMITS = {
    "files in circles": 0,
    "files of more than 500 lines": 0,
    "classes of more than 15 fields": 0,
    "functions of more than 20 branches": 0,
    "docstrings that open with What, Whether, Of, By, Where or That": 0,
    "numeric constants": 78,
    "lines that read a clock": 28,
    "lines that read free memory": 2,
    "files that import from builtins": 0,
    "base names used twice": 0,
}


@pytest.fixture(scope="module")
def measured():
    return architecture.measures()


@pytest.mark.parametrize("rule", LIMITS)
def test_no_more_places_break_a_rule(measured, rule):
    places = measured[rule]
    assert len(places) <= LIMITS[rule], f"{rule}: {len(places)}\n" + "\n".join(places)


def test_every_measure_has_a_limit(measured):
    assert set(measured) == set(LIMITS)


def test_layers_are_kept():
    """Run the contracts of pyproject.toml: no folder imports from a folder above it."""
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=architecture.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr

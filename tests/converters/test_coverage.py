"""The table of what is covered, in converters/README.md, is what the converters say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_table_is_up_to_date():
    told = subprocess.run(
        [sys.executable, "-m", "hx.cli.coverage", "--check", "converters/README.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr.splitlines()[-1:]

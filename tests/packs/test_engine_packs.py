"""The packs with engines, each installed, with the tests of its own on the real engine."""

from __future__ import annotations

import pytest

from .conftest import EXAMPLES, Shell, new_python, pip_install
from .test_examples import own_tests


@pytest.mark.long
@pytest.mark.parametrize(
    "name, library", [("ray", "ray"), ("dask", "distributed"), ("slurm", "submitit")]
)
def test_their_own_tests_pass(name, library, tmp_path):
    pytest.importorskip(library)
    target = tmp_path / "installed"
    pip_install(target, EXAMPLES / f"hx-{name}")
    shell = Shell([target], tmp_path)
    assert " passed" in own_tests(shell, EXAMPLES / f"hx-{name}", new_python)

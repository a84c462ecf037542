"""The packs for real libraries: installed from their folders, their own tests run."""

from __future__ import annotations

import pytest

from .conftest import EXAMPLES, Shell, pip_install
from .test_examples import own_tests

pytestmark = pytest.mark.long

PACKS = ["hx-kernels", "hx-torchvision"]


@pytest.fixture(scope="module", params=PACKS)
def installed(request, tmp_path_factory):
    target = tmp_path_factory.mktemp(request.param)
    pip_install(target, EXAMPLES / request.param)
    return request.param, Shell([target], target)


def test_the_packs_own_tests_pass(installed):
    name, shell = installed
    assert " passed" in own_tests(shell, EXAMPLES / name)


def test_it_is_listed_without_importing_what_it_converts(installed):
    name, shell = installed
    [pack] = [pack for key, pack in shell.packs().items() if key.startswith(f"{name}[")]
    assert pack["status"] == "ok" and not pack["findings"]
    assert pack["counts"]["converters"]
    done = shell.run("converters", "list", "--pack", name, env={"PYTHONVERBOSE": "1"})
    assert done.returncode == 0
    imported = {
        line.split("'")[1] for line in done.stderr.splitlines() if line.startswith("import '")
    }
    assert "hx" in imported and not imported & {"torch", "torchvision", "flash_attn", "mamba_ssm"}

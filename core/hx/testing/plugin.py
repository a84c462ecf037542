"""Fixtures for authors of packs; `pytest_plugins = ["hx.testing.plugin"]` in a conftest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hx.packs.registry import Registry
from hx.testing.cases import CaseFailure, check


@pytest.fixture
def hx_registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Empty registry; code that looks for installed packs during the test finds none."""
    monkeypatch.setattr("hx.packs.installed.find", list)
    return Registry()


@pytest.fixture
def hx_check(hx_registry: Registry) -> Callable[..., Any]:
    """Function that exports with the given converters only, and returns the proved program."""
    return partial(check, registry=hx_registry)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Report a failing case by its own message, which has all details."""
    outcome = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, CaseFailure):
        outcome.get_result().longrepr = str(call.excinfo.value)

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
    """An empty registry. Who asks for installed packs meanwhile is told that there are none."""
    monkeypatch.setattr("hx.packs.installed.find", list)
    return Registry()


@pytest.fixture
def hx_check(hx_registry: Registry) -> Callable[..., Any]:
    """Exports a model with the given converters only, proves the graph, returns the program."""
    return partial(check, registry=hx_registry)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A case that fails is told by its own words, which hold all that is needed."""
    outcome = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, CaseFailure):
        outcome.get_result().longrepr = str(call.excinfo.value)

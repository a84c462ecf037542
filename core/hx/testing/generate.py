"""Tests from cases: `test_converters = tests_of("hx_mylib.converters")`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from hx.contributions import Container, ReferenceKernel
from hx.errors import UsageError
from hx.registration import Registration, registrations
from hx.testing.cases import CaseRun, CaseSkipped, runs_of


def tests_of(
    *things: Any,
    opsets: Iterable[int] | None = None,
    dtypes: Iterable[str] | None = None,
    kernels: Iterable[ReferenceKernel] = (),
    containers: Iterable[Container] = (),
) -> Callable[[CaseRun], None]:
    """Make a pytest function for all cases of these modules (or their names) and converters.

    A module with the hooks of a pack stands for all that they contribute.

    opsets      instead of 13, 20, 26 and the ends of each converter's window
    dtypes      for cases that name none
    kernels     what custom operators compute, where onnxruntime does not know them
    containers  classes that hold tensors, taken apart and put together again
    """
    import pytest

    found: list[Registration] = []
    kernels, containers = list(kernels), list(containers)
    for thing in things:
        whole = importlib.import_module(thing) if isinstance(thing, str) else thing
        listed = _given(whole, "hx_converters")
        modules = [importlib.import_module(x) if isinstance(x, str) else x for x in listed]
        # A plugin may hold the functions that it contributes.
        new = {id(each): each for one in (whole, *modules) for each in registrations(one)}
        if not new:
            raise UsageError(f"{thing!r} holds no converter")
        found += new.values()
        kernels += _given(whole, "hx_reference_kernels")
        containers += _given(whole, "hx_containers")
    runs = list(runs_of(found, opsets, dtypes, kernels, containers))
    without = [
        pytest.param(None, id=f"{each.target}-no-case", marks=pytest.mark.skip("it has no case"))
        for each in found
        if not each.cases
    ]

    @pytest.mark.parametrize("run", [*(pytest.param(run, id=run.id) for run in runs), *without])
    def test(run: CaseRun) -> None:
        __tracebackhide__ = True
        try:
            run.check()
        except CaseSkipped as reason:
            pytest.skip(str(reason))

    return test


def _given(plugin: Any, hook: str) -> list[Any]:
    return list(getattr(plugin, hook, list)())


tests_of.__test__ = False  # type: ignore[attr-defined]  # its name looks like a test to pytest

"""Models of cases: modules whose forward makes the call of a case on its inputs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from hx.contributions import Container
from hx.errors import UsageError
from hx.ir.input_grammar import TensorSpec, choose_sizes, looks_like_spec, parse_spec
from hx.packs import containers, targets
from hx.registration import Case


@dataclass(frozen=True)
class _Slot:
    """Placeholder in the arguments for tensor number `index`."""

    index: int


@dataclass(frozen=True)
class _Held:
    """Placeholder for another library's object that holds tensors."""

    container: Container
    parts: dict[str, Any]
    rest: Any


class CaseModel(nn.Module):
    """Module that calls a target with the arguments of a case."""

    def __init__(self, function: Any, args: Any, kwargs: Any) -> None:
        super().__init__()
        if isinstance(function, nn.Module):
            self.called = function
        else:
            self._function = {"called": function}  # so that nn.Module leaves it alone
        self._given = (args, kwargs)

    def forward(self, *x: Any) -> Any:
        args, kwargs = _filled(self._given, x)
        function = self.called if hasattr(self, "called") else self._function["called"]
        result = function(*args, **kwargs)
        return x if result is None else result  # it wrote to its argument


@dataclass
class CaseCall:
    """Model of a case, its inputs, and their dynamic axes."""

    model: CaseModel
    specs: list[TensorSpec | torch.Tensor]
    tensors: tuple[torch.Tensor, ...]

    @property
    def dynamic(self) -> dict[str, dict[int, str]]:
        return {
            f"x_{i}": spec.dynamic
            for i, spec in enumerate(self.specs)
            if isinstance(spec, TensorSpec) and spec.dynamic
        }


def call_of(target: str, case: Case, dtype: str | None = None, seed: int = 0) -> CaseCall:
    """Build the call of a case; `dtype` replaces that of its floating-point tensors."""
    specs: list[TensorSpec | torch.Tensor] = []

    def slots(value: Any) -> Any:
        value = _value(value)
        if isinstance(value, torch.Tensor):
            specs.append(value)
            return _Slot(len(specs) - 1)
        if (container := containers.of(value)) is not None:
            parts, rest = container.flatten(value)
            return _Held(container, slots(dict(parts)), rest)
        if looks_like_spec(value):
            spec = parse_spec(value)
            specs.append(spec.with_dtype(dtype) if dtype and spec.is_float else spec)
            return _Slot(len(specs) - 1)
        if isinstance(value, (list, tuple)):
            return type(value)(slots(each) for each in value)
        if isinstance(value, dict):
            return {key: slots(each) for key, each in value.items()}
        return value

    args, kwargs = slots(tuple(case.args)), slots(dict(case.kwargs))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed reads the stack, for CUDA
        function = _callable(target, case, dtype)
    sizes = choose_sizes(spec for spec in specs if isinstance(spec, TensorSpec))
    tensors = tuple(
        spec.make(sizes, seed + i) if isinstance(spec, TensorSpec) else spec
        for i, spec in enumerate(specs)
    )
    return CaseCall(CaseModel(function, args, kwargs).eval(), specs, tensors)


def _callable(target: str, case: Case, dtype: str | None) -> Any:
    """Return what the case calls: a module made with its `init`, or the function itself."""
    found = targets.resolve(target, import_missing=True)
    owner, attribute = found.owner, found.attribute
    init = [_value(each) for each in case.init]
    init_kwargs = {name: _value(each) for name, each in case.init_kwargs.items()}
    if isinstance(owner, type) and issubclass(owner, nn.Module) and attribute == "forward":
        module = owner(*init, **init_kwargs).eval()
        return module.to(getattr(torch, dtype)) if dtype else module
    if owner is None:
        raise UsageError(f"{target} cannot be called by a case")
    if isinstance(owner, type) and (init or init_kwargs):
        return getattr(owner(*init, **init_kwargs), attribute)
    return getattr(owner, attribute)


def _value(given: Any) -> Any:
    """Call a function without parameters, which stands for its result."""
    makes = inspect.isfunction(given) and not inspect.signature(given).parameters
    return given() if makes else given


def _filled(value: Any, tensors: Any) -> Any:
    if isinstance(value, _Slot):
        return tensors[value.index]
    if isinstance(value, _Held):
        return value.container.unflatten(_filled(value.parts, tensors), value.rest)
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(each, tensors) for each in value)
    if isinstance(value, dict):
        return {key: _filled(each, tensors) for key, each in value.items()}
    return value


def attributes_of(target: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Return the classes and modules that hold a target, with their current attributes."""
    found = targets.resolve(target, import_missing=True)
    for owner in (found.owner, nn.Module, torch.Tensor):
        if isinstance(owner, type) or inspect.ismodule(owner):
            yield owner, dict(vars(owner))

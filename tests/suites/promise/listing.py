"""Models of the suite: how each is made, its inputs, and the sizes that may change."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..planted.drawn_inputs import Size
from . import families
from .drawing import Input, draw, parsed

FAMILIES = tuple(
    sorted(each.name for each in pkgutil.iter_modules([Path(families.__file__).parent]))
)


def _as_they_are(*tensors: torch.Tensor) -> tuple:
    return tensors


@dataclass(frozen=True)
class Listed:
    """A model of the suite."""

    name: str  # family/model
    make: Callable[[], Callable]  # a new one, with its state as at the beginning
    inputs: Mapping[str, Input]
    sizes: Mapping[str, Size]
    source: Callable
    pack: Callable[..., tuple] = _as_they_are  # arguments of the model from its tensors
    most: int = 1000  # the largest size that is tried
    ties: bool = True  # False if PyTorch does not promise which of several equal elements it picks

    def drawn(self, sizes: Mapping[str, int], values: str, seed: int) -> dict[str, torch.Tensor]:
        return draw(self.inputs, sizes, values, seed)

    def recorded(self) -> dict[str, torch.Tensor]:
        sizes = {word: size.recorded for word, size in self.sizes.items()}
        return self.drawn(sizes, "normal", 0)

    @property
    def axes(self) -> dict[str, dict[int, str]]:
        """Axes that may change, by input."""
        steps = {
            word: f"%{size.step}" if size.step > 1 else "" for word, size in self.sizes.items()
        }
        return {
            name: {axis: d + steps[d] for axis, d in enumerate(one.dims) if isinstance(d, str)}
            for name, one in self.inputs.items()
        }


MODELS: dict[str, Listed] = {}


def model(
    *,
    pack: Callable[..., tuple] = _as_they_are,
    most: int = 1000,
    ties: bool = True,
    **described: str,
) -> Callable:
    """List a function of tensors, or a class of modules."""

    def listed(source: Any) -> Any:
        def make() -> Callable:
            return _module(source) if inspect.isclass(source) else source

        return _list(source, make, pack, most, ties, described)

    return listed


def factory(
    *, pack: Callable[..., tuple] = _as_they_are, most: int = 1000, **described: str
) -> Callable:
    """List a function that makes a model: one that keeps state, or wraps another."""

    def listed(source: Any) -> Any:
        return _list(source, lambda: _module(source), pack, most, True, described)

    return listed


def _list(
    source: Any, make: Any, pack: Any, most: int, ties: bool, described: dict[str, str]
) -> Any:
    inputs, sizes = parsed(described)
    sizes = {word: Size(s.recorded, s.low, most, s.step) for word, s in sizes.items()}
    name = f"{source.__module__.rpartition('.')[2]}/{source.__name__}"
    assert name not in MODELS, name
    MODELS[name] = Listed(name, make, inputs, sizes, source, pack, most, ties)
    return source


def _module(source: Callable[[], Any]) -> Any:
    """Make a module with the statistics and parameters that training leaves."""
    torch.manual_seed(0)
    made = source()
    if not isinstance(made, torch.nn.Module):
        return made
    with torch.no_grad():
        for module in made.modules():
            if (
                isinstance(module, torch.nn.modules.batchnorm._NormBase)
                and module.running_mean is not None
            ):
                module.running_mean.normal_(0, 0.2)
                module.running_var.uniform_(0.6, 1.4)
        for parameter in made.parameters():
            if parameter.numel() and bool((parameter == parameter.reshape(-1)[0]).all()):
                parameter.add_(0.6 * (torch.rand_like(parameter) - 0.5))
    return made.eval()


def named(name: str) -> Listed:
    importlib.import_module(f"{families.__name__}.{name.partition('/')[0]}")
    return MODELS[name]


def names() -> list[str]:
    """List all models, by family."""
    for family in FAMILIES:
        importlib.import_module(f"{families.__name__}.{family}")
    return sorted(MODELS, key=lambda name: FAMILIES.index(name.partition("/")[0]))

"""A model of the suite: how to make it, its inputs, and the sizes that may change."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .drawn_inputs import Input, Size, draw

USUAL = {"b": 3, "n": 5, "t": 6, "s": 4, "h": 12, "w": 10, "m": 7, "k": 4}


@dataclass(frozen=True)
class Planted:
    """A model in whose graph mistakes are planted."""

    make: Callable[[], torch.nn.Module | Callable]
    inputs: Mapping[str, Input]
    sizes: Mapping[str, Size]
    packs: tuple[str, ...] = ()
    real: bool = False
    # Further keyword arguments; if not None, the inputs are passed by name as well.
    kwargs: dict[str, Any] | None = None

    def called(self, tensors: Mapping[str, torch.Tensor]) -> tuple[tuple, dict[str, Any]]:
        """Return the arguments of a call with these tensors."""
        if self.kwargs is None:
            return tuple(tensors.values()), {}
        return (), {**tensors, **self.kwargs}

    @property
    def dynamic(self) -> dict[str, dict[int, str]]:
        """Return the axes that may change, as `hx.export` takes them."""
        found = {
            name: {axis: self._said(d) for axis, d in enumerate(one.dims) if isinstance(d, str)}
            for name, one in self.inputs.items()
        }
        return {name: axes for name, axes in found.items() if axes}

    def _said(self, word: str) -> str:
        step = self.sizes[word].step
        return f"{word}%{step}" if step > 1 else word

    def recorded(self) -> dict[str, torch.Tensor]:
        sizes = {word: size.recorded for word, size in self.sizes.items()}
        return draw(self.inputs, sizes, "normal", 0)


MODELS: dict[str, Planted] = {}


def planted(given: Mapping[str, int | Size] | None = None, **inputs: Input) -> Callable:
    """List a function of tensors, or a class of modules, with a description of its inputs."""

    def listed(model: Any) -> Any:
        words = {d: None for one in inputs.values() for d in one.dims if isinstance(d, str)}
        sizes = {}
        for word in words:
            size = (given or {}).get(word, USUAL.get(word, 4))
            sizes[word] = size if isinstance(size, Size) else Size(size)
        make = functools.partial(_made, model)
        MODELS[model.__name__] = Planted(make, inputs, sizes)
        return model

    return listed


def _made(model: Any) -> Any:
    if not inspect.isclass(model):
        return model
    torch.manual_seed(0)
    made = model().eval()
    with torch.no_grad():
        for module in made.modules():  # as training leaves them
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_(0, 0.2)
                module.running_var.uniform_(0.6, 1.4)
        for parameter in made.parameters():
            first = parameter.reshape(-1)[0]
            if bool((parameter == first).all()):
                parameter.add_(0.6 * (torch.rand_like(parameter) - 0.5))
    return made

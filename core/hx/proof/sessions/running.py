"""Runs of a program's file, with inputs and results nested as the model's own.

Inputs are torch tensors or numpy arrays. Results are torch tensors, or numpy arrays if all inputs
were numpy arrays.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ... import dtypes
from ...cleanup import run_inside
from ...errors import UsageError
from ...graph.model_parts import Parts
from ...packs import nesting
from ...packs.kernels import op_runs
from ...recording.prepare import flat_inputs, parameters_of
from ...runtime import Refused, as_pairs
from ...samples.sizes import sizes_of
from ...saving import model_file, save
from ..declared import Sizes
from .open_file import loader

if TYPE_CHECKING:
    from ..subject import Subject


class Runner:
    """Loaded file that takes and returns tensors in the model's structure."""

    def __init__(self, subject: Subject, parts: Parts, path: str | None) -> None:
        self.subject = subject
        if path is not None and Path(path).is_file():
            self._load(Path(path))
        else:
            run_inside(save.staged(parts, None), lambda staged: self._load(staged.path))

    def _load(self, path: Path) -> None:
        skeleton = model_file.skeleton(path)
        kernels = op_runs(self.subject.recorder.registry.kernels)
        self.inputs = {value.name: value for value in skeleton.graph.input}
        self.outputs = [value.name for value in skeleton.graph.output]
        try:
            self._run = loader(path, skeleton, kernels)[1](True)
        except Refused as refused:
            raise UsageError(f"{os.fspath(path)} cannot be loaded", why=str(refused)) from None

    def __call__(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        given = self._by_name(args, kwargs)
        arrays = bool(given) and all(isinstance(value, np.ndarray) for value in given.values())
        sizes = Sizes()
        feeds = {name: self._checked(name, value, sizes) for name, value in given.items()}
        self._require_promised(feeds)
        try:
            results = self._run(feeds)
        except Refused as refused:
            raise UsageError("the graph does not run on these inputs", why=str(refused)) from None
        results = [_as_the_models(each, real) for each, real in zip(results, self.subject.results)]
        return self._nested([_as_array(each) for each in results] if arrays else results)

    def _by_name(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the inputs by the names of the graph's inputs."""
        recipe = self.subject.recipe
        if len(args) == 1 and not kwargs and isinstance(args[0], Mapping):
            if set(args[0]) == set(self.inputs):
                return {name: args[0][name] for name in self.inputs}
        recorded = flat_inputs(recipe.call.model, recipe.call.args, recipe.call.kwargs)
        given = flat_inputs(recipe.call.model, args, kwargs)
        names = iter(recipe.call.names)
        out = {}
        for key, was in recorded.items():
            if isinstance(was, torch.Tensor):
                name = next(names)
                if key not in given:
                    raise self._unlike(f"the input {name} is missing")
                out[name] = given.pop(key)
            elif key in given and not _alike(given.pop(key), was):
                raise self._unlike(f"{key} was {was!r} at the export, and is part of the graph")
        defaults = {p.name: p.default for p in parameters_of(recipe.call.model)}
        unknown = [k for k, v in given.items() if k not in defaults or not _alike(v, defaults[k])]
        if unknown:
            raise self._unlike(f"{', '.join(unknown)}: not given at the export")
        return out

    def _checked(self, name: str, value: Any, sizes: Sizes) -> torch.Tensor:
        try:
            tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            raise self._unlike(f"the input {name} is no tensor: {value!r}") from None
        wanted = self.subject.recipe.inputs[name].dtype
        if tensor.dtype != wanted:
            found = dtypes.name(tensor.dtype)
            wants = dtypes.name(wanted)
            raise UsageError(f"the input {name} is {wants}, but {found} was given")
        tensor = as_pairs(tensor.detach().cpu())
        problem = sizes.check(f"the input {name!r}", self.inputs[name], tensor.shape)
        if problem:
            raise UsageError(problem)
        return tensor

    def _require_promised(self, feeds: dict[str, torch.Tensor]) -> None:
        promised = self.subject.promised
        for word, size in (sizes_of(self.subject.recipe, feeds) if promised else {}).items():
            if not promised[word].hold(size):
                raise UsageError(
                    f"{word} is {size}, and the file is right for {promised[word].briefly(word)} only",
                    why=next(
                        each.text
                        for each in self.subject.notes
                        if "the file is right for" in each.text
                    ),
                )

    def _unlike(self, what: str) -> UsageError:
        return UsageError(
            what,
            hint="give what the model takes, nested as it was at the export; or one dict by name: "
            + ", ".join(self.inputs),
        )

    def _nested(self, results: list[Any]) -> Any:
        left = iter(results)

        def put(name: str, leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                return next(left)
            if isinstance(leaf, (bool, int, float)):
                return type(leaf)(next(left).item())
            return leaf

        if self.subject.trace.structure is None:
            return dict(zip(self.outputs, results))
        return nesting.replace(self.subject.trace.structure, put)


def _alike(given: Any, was: Any) -> bool:
    try:
        return bool(type(given) is type(was) and given == was) or given is was
    except Exception:  # if it cannot be compared, the caller must decide
        return True


def _as_the_models(result: torch.Tensor, real: Any) -> torch.Tensor:
    """Turn a last axis of two parts into complex numbers if the model's own result is complex."""
    pairs = isinstance(real, torch.Tensor) and real.is_complex()
    return torch.view_as_complex(result) if pairs else result


def _as_array(tensor: torch.Tensor) -> Any:
    """Return the tensor as a numpy array, or unchanged if numpy has no such type."""
    try:
        return tensor.numpy()
    except TypeError:
        return tensor

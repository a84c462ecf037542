"""A copy on the CPU of a model that is on a GPU; inputs that the user did not give are tried on it.

An index that is out of range raises on a CPU. On a GPU it makes the GPU unusable for the rest of
the process: a model must not be tried there on inputs that it may not accept. And products on a GPU
may be rounded, if PyTorch allows it (TF32): the copy's are not.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch

from ...budget import BUDGET
from ...cleanup import run_inside
from ...free_memory import require_memory
from ...ir.recipe import Recipe
from ...torchworld.state import shallow
from ...torchworld.state.modelstate import preserved
from ..prepare import arguments


class StandIns:
    """A copy that stands in for a model, made on first use and shared by all of its recordings."""

    def __init__(self, *made: None) -> None:
        self._made: list[tuple[Any, Any] | None] = [*made]
        self._given: dict[str, torch.Tensor] = {}  # the user's own inputs

    def of(self, recipe: Recipe) -> Recipe | None:
        """The model on the CPU; None if it is there already, or does not run there."""
        if (
            not torch.cuda.is_initialized()
            or recipe.request.weights.streamed
            or not _on_gpu(recipe)
        ):
            return None
        if not self._made:
            self._made.append(_made(recipe))
        found = self._made[0]
        return None if found is None else _with(recipe, *found)

    def forget(self) -> None:
        """Release the copy, which is as large as the model."""
        self._made.clear()

    def survives(self, recipe: Recipe) -> None:
        """Raise the model's error on the CPU for these inputs, unless they are the user's."""
        self._given = self._given or recipe.inputs
        if any(self._given.get(name) is not tensor for name, tensor in recipe.inputs.items()):
            there = self.of(recipe)
            if there is not None:
                _runs(there)


def nobody() -> StandIns:
    """Return the StandIns of a model that is a copy itself."""
    return StandIns(None)


def on_the_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}


def _on_gpu(recipe: Recipe) -> bool:
    given = (*recipe.inputs.values(), *_weights(recipe))
    return any(tensor.is_cuda for tensor in given)


def _weights(recipe: Recipe) -> list[torch.Tensor]:
    return [
        tensor
        for _, module in shallow.walk(recipe.call.root)
        for held in (shallow.parameters, shallow.buffers)
        for tensor in held(module).values()
    ]


def _made(recipe: Recipe) -> tuple[Any, Any] | None:
    own = recipe.call.model is recipe.call.root
    if not own and _weights(recipe):
        return None  # a function whose modules nobody can replace
    size = shallow.weight_bytes(recipe.call.root)
    if size > BUDGET.bytes.weights_on_cpu:
        return None
    require_memory("a copy of the model on the CPU", 2 * size)
    try:
        model = _copied(recipe) if own else recipe.call.model
        found = model, model if own else recipe.call.root
        _runs(_with(recipe, *found))
    except Exception:  # the model's own: it says where it is to run, or cannot be copied
        return None
    return found


def _copied(recipe: Recipe) -> Any:
    """Copy the model directly to the CPU: there may be no room for two on the GPU."""
    known: dict[int, Any] = {}
    for _, module in shallow.walk(recipe.call.root):
        held = (*shallow.parameters(module).values(), *shallow.buffers(module).values())
        for tensor in (*held, *vars(module).values()):
            if isinstance(tensor, torch.Tensor) and tensor.is_cuda and id(tensor) not in known:
                plain = tensor.detach().cpu()
                is_weight = isinstance(tensor, torch.nn.Parameter)
                known[id(tensor)] = torch.nn.Parameter(plain, False) if is_weight else plain
    return copy.deepcopy(recipe.call.model, known)


def _with(recipe: Recipe, model: Any, root: Any) -> Recipe:
    tensors = on_the_cpu(recipe.inputs)
    call = dataclasses.replace(recipe.call, model=model, root=root)
    request = dataclasses.replace(recipe.request, call=call)
    return dataclasses.replace(recipe, request=request, inputs=tensors)


def _runs(recipe: Recipe) -> None:
    args, kwargs = arguments(recipe.call, {n: t.clone() for n, t in recipe.inputs.items()})

    def run(_: Any) -> None:
        torch._C._set_grad_enabled(False)  # the guard puts that back
        recipe.call.model(*args, **kwargs)

    run_inside(preserved(recipe.call.root), run)

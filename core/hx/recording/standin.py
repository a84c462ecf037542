"""A copy on the CPU of a model that is on a GPU; it is asked first what nobody has asked the model.

An index that is out of range raises on a CPU. On a GPU it ends all use of the GPU in the process, as
long as that lives: a model must not be tried there on inputs that it may not take. And the
products of a GPU may be rounded, as PyTorch lets it (TF32): the copy's are not.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from ..proof.room import left
from ..surely import inside
from ..world import shallow
from ..world.modelstate import preserved

if TYPE_CHECKING:
    from .prepared import Prepared

SPARE = 2  # times as much memory is to be left as the copy takes


class StandIns:
    """What stands for a model, once it was asked for: made once, for all of its recordings."""

    def __init__(self, *made: None) -> None:
        self._made: list[tuple[Any, Any] | None] = [*made]
        self._given: dict[str, torch.Tensor] = {}  # what the model is asked for by its user

    def of(self, prepared: Prepared) -> Prepared | None:
        """The model on the CPU, or nothing where it is there, or does not run there."""
        if not torch.cuda.is_initialized() or prepared.slim is not None or not _on_gpu(prepared):
            return None
        if not self._made:
            self._made.append(_made(prepared))
        found = self._made[0]
        return None if found is None else _with(prepared, *found)

    def forget(self) -> None:
        """Lets go of a copy, which is as large as the model."""
        self._made.clear()

    def survives(self, prepared: Prepared) -> None:
        """Raises what the model raises on the CPU for these inputs, if they are not the user's."""
        self._given = self._given or prepared.tensors
        if any(self._given.get(name) is not tensor for name, tensor in prepared.tensors.items()):
            there = self.of(prepared)
            if there is not None:
                _runs(there)


def nobody() -> StandIns:
    """Of a model that is a copy itself."""
    return StandIns(None)


def on_the_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}


def _on_gpu(prepared: Prepared) -> bool:
    given = (*prepared.tensors.values(), *_weights(prepared))
    return any(tensor.is_cuda for tensor in given)


def _weights(prepared: Prepared) -> list[torch.Tensor]:
    return [
        tensor
        for _, module in shallow.walk(prepared.root)
        for held in (shallow.parameters, shallow.buffers)
        for tensor in held(module).values()
    ]


def _made(prepared: Prepared) -> tuple[Any, Any] | None:
    own = prepared.model is prepared.root
    if not own and _weights(prepared):
        return None  # a function whose modules nobody can replace
    if SPARE * prepared.size > left().memory:
        return None
    try:
        model = _copied(prepared) if own else prepared.model
        found = model, model if own else prepared.root
        _runs(_with(prepared, *found))
    except Exception:  # the model's own: it says where it is to run, or cannot be copied
        return None
    return found


def _copied(prepared: Prepared) -> Any:
    """Made on the CPU at once: there may be no room for two on the GPU."""
    known: dict[int, Any] = {}
    for _, module in shallow.walk(prepared.root):
        held = (*shallow.parameters(module).values(), *shallow.buffers(module).values())
        for tensor in (*held, *vars(module).values()):
            if isinstance(tensor, torch.Tensor) and tensor.is_cuda and id(tensor) not in known:
                plain = tensor.detach().cpu()
                is_weight = isinstance(tensor, torch.nn.Parameter)
                known[id(tensor)] = torch.nn.Parameter(plain, False) if is_weight else plain
    return copy.deepcopy(prepared.model, known)


def _with(prepared: Prepared, model: Any, root: Any) -> Prepared:
    tensors = on_the_cpu(prepared.tensors)
    return dataclasses.replace(prepared, model=model, root=root, tensors=tensors)


def _runs(prepared: Prepared) -> None:
    args, kwargs = prepared.with_tensors({n: t.clone() for n, t in prepared.tensors.items()})

    def run(_: Any) -> None:
        torch._C._set_grad_enabled(False)  # the guard puts that back
        prepared.model(*args, **kwargs)

    inside(preserved(prepared.root), run)

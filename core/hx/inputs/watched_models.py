"""Models that a script called: the calls that one graph can answer, and the one to record."""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hx import dtypes
from hx.hooks.outermost_calls import CalledModule
from hx.ir.call_arguments import Arguments
from hx.ir.proposed_sizes import propose, words_of
from hx.packs import nesting
from hx.recording.prepare import flat_inputs

Tensors = dict[str, torch.Tensor]


@dataclass
class WatchedModel:
    """A module that a script called, with calls at different sizes; the first is the example."""

    name: str
    module: torch.nn.Module
    place: str  # file and line of its class
    count: int  # all calls
    calls: list[tuple[Arguments, Tensors]]
    other_arguments: int  # kept calls that take another graph
    left_out: int  # calls at further shapes, which were not kept
    inside: bool  # of another of the models, as a part that was called by itself as well

    @property
    def has_weights(self) -> bool:
        return next(self.module.parameters(), None) is not None

    @property
    def example(self) -> Arguments:
        return self.calls[0][0]

    @property
    def others(self) -> dict[str, Arguments]:
        return {f"call {i}": given for i, (given, _) in enumerate(self.calls[1:], 2)}

    @property
    def tensors(self) -> list[Tensors]:
        return [tensors for _, tensors in self.calls]


def watched_models(called: Iterable[CalledModule]) -> list[WatchedModel]:
    """Return the models with calls that returned, those with weights first."""
    seen: Counter[str] = Counter()
    found = []
    called = [each for each in called if each.kept]
    parts = {
        id(part) for each in called for part in each.module.modules() if part is not each.module
    }
    for each in called:
        kind = _kind(each.module)
        seen[kind] += 1
        name = kind if seen[kind] == 1 else f"{kind}-{seen[kind]}"
        calls, others = _alike(each)
        found.append(
            WatchedModel(
                name,
                each.module,
                _place(type(each.module)),
                each.count,
                calls,
                others,
                each.left_out,
                id(each.module) in parts,
            )
        )
    return sorted(found, key=lambda model: not model.has_weights)


def _kind(module: torch.nn.Module) -> str:
    return str(getattr(module, "original_name", type(module).__name__))


def _alike(called: CalledModule) -> tuple[list[tuple[Arguments, Tensors]], int]:
    """Return the most calls with the same arguments apart from sizes, and the number of others."""
    groups: dict[Any, list[tuple[Arguments, Tensors]]] = {}
    for given in called.kept.values():
        given = _beside(called.module, given)
        leaves = flat_inputs(called.module, given.args, given.kwargs)
        tensors = {k: t for k, t in leaves.items() if isinstance(t, torch.Tensor)}
        form = frozenset((name, _form(leaf)) for name, leaf in leaves.items())
        groups.setdefault(form, []).append((given, tensors))
    calls = max(groups.values(), key=len)
    return _example_first(calls), len(called.kept) - len(calls)


def _form(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{dtypes.name(leaf.dtype)} of rank {leaf.dim()}"
    return repr(leaf) if isinstance(leaf, (int, float, str, type(None))) else type(leaf).__name__


def _example_first(calls: list[tuple[Arguments, Tensors]]) -> list[tuple[Arguments, Tensors]]:
    """Put a call first in which no size that changes is 1: sizes of 1 may be broadcast."""
    axes = [axis for each in words_of(propose(shapes_of(calls))).values() for axis in each]
    for call in calls:
        if all(call[1][name].shape[axis] > 1 for name, axis in axes):
            return [call, *(each for each in calls if each is not call)]
    return calls


def shapes_of(calls: Sequence[tuple[Arguments, Tensors]]) -> list[dict[str, tuple[int, ...]]]:
    return [{name: tuple(t.shape) for name, t in tensors.items()} for _, tensors in calls]


def _beside(module: torch.nn.Module, given: Arguments) -> Arguments:
    """Move the arguments to the device of the weights if that is a GPU."""
    weight = next(module.parameters(), None)
    if weight is None or not weight.is_cuda:
        return given

    def moved(name: str, leaf: Any) -> Any:
        return leaf.to(weight.device) if isinstance(leaf, torch.Tensor) else leaf

    args, kwargs = nesting.replace((given.args, given.kwargs), moved)
    return Arguments(args, kwargs)


def _place(kind: type) -> str:
    """Return the file and line of a class of the user's; "" for one of PyTorch's."""
    if kind.__module__.partition(".")[0] == "torch":
        return ""
    with contextlib.suppress(OSError, TypeError):
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"
    return ""

"""What TorchScript holds, run in Python: its graph, node by node, so that every call is seen.

TorchScript's own interpreter calls operators with sizes that are plain numbers by then. Here sizes
stay sizes: arithmetic on numbers is Python's, and everything else is called as `torch.ops` has it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from .run import Run

if TYPE_CHECKING:
    from ..recording import Recording


def run(recording: Recording, called: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """What a ScriptMethod or a ScriptFunction returns."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        graph = called.graph.copy()
        torch._C._jit_pass_inline(graph)
    given = [*_owner(called), *args]
    for argument in called.schema.arguments[len(given) :]:
        given.append(kwargs.get(argument.name, argument.default_value))
    return Run(recording, called).graph(graph, given)


def parameters_of(called: Any) -> list[inspect.Parameter]:
    names = [argument.name for argument in called.schema.arguments][len(_owner(called)) :]
    return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]


def _owner(called: Any) -> list[Any]:
    return [called.owner] if isinstance(called, torch._C.ScriptMethod) else []

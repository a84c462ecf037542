"""Functions that take functions: each function argument becomes a subgraph of one node.

`torch.cond` is If, `while_loop` is Loop; `scan`, and what follows from it (`map`,
`associative_scan`, `torch.vmap`), is Scan. Each function is recorded once into a graph of its own,
which may read what the graph around it holds. Both branches are recorded, whichever is taken.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from ...errors import HxError
from ..recording import Recording
from .branch import cond, taken
from .functional import functional_call, refused, region, subgraph, vmap
from .loop import while_loop
from .scans import associative_scan, map_op, mapped, scan, scan_op


def _table() -> dict[Any, Callable]:
    from torch import _higher_order_ops as higher
    from torch._functorch import eager_transforms
    from torch._functorch import vmap as functorch
    from torch.autograd import forward_ad
    from torch.nn.utils import stateless

    # The package has an operator of that name in place of the module.
    regions = sys.modules.get("torch._higher_order_ops.invoke_subgraph")
    wanted = [
        (higher, "cond", cond),
        (higher, "while_loop", while_loop),
        (higher, "scan", scan),
        (higher, "map", mapped),
        (higher, "associative_scan", associative_scan),
        (regions, "invoke_subgraph_placeholder", region),
        (functorch, "vmap_impl", vmap),
        (stateless, "_functional_call", functional_call),
        (eager_transforms, "grad_and_value_impl", refused("torch.func.grad")),
        (eager_transforms, "_vjp_with_argnums", refused("torch.func.vjp")),
        (eager_transforms, "_jvp_with_argnums", refused("torch.func.jvp")),
        (torch.autograd, "grad", refused("torch.autograd.grad")),
        (torch.autograd, "backward", refused("torch.Tensor.backward")),
        (forward_ad, "make_dual", refused("torch.autograd.forward_ad")),
    ]
    # Not every version of PyTorch has them all.
    found = ((getattr(owner, name, None), do) for owner, name, do in wanted)
    return {function: do for function, do in found if isinstance(function, types.FunctionType)}


# The operators beneath, as a module that torch.export made calls them.
OPERATORS: dict[str, Callable] = {
    "higher_order::cond": cond,
    "higher_order::while_loop": while_loop,
    "higher_order::scan": scan_op,
    "higher_order::map_impl": map_op,
    "higher_order::invoke_subgraph": subgraph,
}


def hooks(recording: Recording) -> dict[Any, Callable]:
    """The handlers of plain Python functions, by function."""
    return {function: _hook(recording, do) for function, do in _table().items()}


def _hook(recording: Recording, do: Callable) -> Callable:
    def hook(original, args, kwargs):
        if recording.running.busy and do is not region:
            return taken(*args, **kwargs) if do is cond else original(*args, **kwargs)
        try:
            return do(recording, original, args, kwargs)
        except HxError as e:
            if e.where is None:
                e.where = recording.position.where()
            raise

    return hook


def arrived(do: Callable) -> Callable:
    """A handler in the form that a door of torch calls."""

    def action(recording, key, func, args, kwargs, door):
        recording.running.busy = False
        try:
            with door:
                return do(recording, func, args, kwargs)
        finally:
            recording.running.busy = True

    return action

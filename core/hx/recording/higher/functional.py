"""Functions of torch.func: vmap becomes Scan; for those that differentiate, see `derivatives`."""

from __future__ import annotations

from collections.abc import Callable

from torch.utils import _pytree as pytree

from ...errors import Differentiates
from ...ir.random_draws import draws
from ..recording import Recording
from .part import Higher, named
from .scans import each


def vmap(recording: Recording, original, args, kwargs):
    """Compute slice by slice, as vmap is defined, whatever the function does."""
    from torch._functorch import vmap as functorch

    func, in_dims, out_dims, randomness, _, *given = args
    call = Higher(recording, "torch.vmap")
    _, places, flat, form = functorch._process_batched_inputs(in_dims, tuple(given), func)
    moving = [i for i, axis in enumerate(places) if axis is not None]
    xs = [flat[i] if places[i] == 0 else flat[i].movedim(places[i], 0) for i in moving]

    def function(*slices):
        own = list(flat)
        for i, tensor in zip(moving, slices):
            own[i] = tensor
        before = len(recording.builder.nodes)
        drawn = func(*pytree.tree_unflatten(own, form), **kwargs)
        # Scan draws anew for every slice, and what is drawn behind a seed is there once.
        if randomness == "same" and any(map(draws, recording.builder.nodes[before:])):
            call.refuse("the same random numbers for every slice")
        if randomness == "different" and recording.draws.seeded:
            call.refuse("random numbers of its own for every slice, behind a seed")
        return drawn

    result = each(call, function, xs)
    leaves, spec = pytree.tree_flatten(result)
    if isinstance(out_dims, int):
        axes = [out_dims] * len(leaves)
    else:
        axes = pytree.tree_leaves(out_dims)
    if len(axes) != len(leaves) or any(axis is None for axis in axes):
        call.refuse("out_dims has to name an axis for every output")
    moved = [t if axis == 0 else t.movedim(0, axis) for t, axis in zip(leaves, axes)]
    return pytree.tree_unflatten(moved, spec)


def functional_call(recording: Recording, original, args, kwargs):
    """Run functional_call, which PyTorch refuses to run while it is being traced."""
    from torch.nn.utils import stateless

    module, tensors, given, words, tie, strict = named(
        args, kwargs, module=..., parameters_and_buffers=..., args=None, kwargs=None,
        tie_weights=True, strict=False,
    )  # fmt: skip
    given = () if given is None else given if isinstance(given, tuple) else (given,)
    with stateless._reparametrize_module(module, tensors, tie_weights=tie, strict=strict):
        return module(*given, **(words or {}))


def region(recording: Recording, original, args, kwargs):
    """Run a nested_compile_region as plain Python; PyTorch compiles it where is_exporting() is True."""
    function, *given = args
    return function(*given, **kwargs)


def subgraph(recording: Recording, original, args, kwargs):
    """The result of a region in a module that torch.export made."""
    function, _, *given = args
    return function(*given)


def refused(target: str) -> Callable:
    def hook(recording: Recording, original, args, kwargs):
        raise Differentiates(
            f"{target} differentiates, and a graph for inference has no gradients",
            where=recording.position.where(),
            why="PyTorch does not trace this model with its derivatives, or what it traces is not right",
            hint="compute the derivative by hand, or leave it out of forward",
        )

    return hook

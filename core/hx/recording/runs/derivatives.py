"""A model that differentiates as it runs: the forces of an energy, the normals of a surface.

A recording keeps no gradients. But PyTorch traces such a model, derivatives and all, down to the
operators of its library, in sizes that stay open; and these are recorded in the model's place. The
proof still asks the model itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...cleanup import run_inside
from ...errors import Differentiates
from ...ir.recipe import Recipe
from ...packs import nesting
from ...torchworld import patching, torch_bodies
from ...torchworld.state.modelstate import preserved
from ..calls.choices import Choices
from ..prepare import arguments, flat_inputs


def traced(recipe: Recipe, choices: Choices, refused: Differentiates) -> Recipe | None:
    """Return the same call of PyTorch's trace of the model; None if it cannot be traced, and the
    reason is in the refusal.
    """
    if recipe.request.weights.streamed or recipe.body is not None:
        return None
    why = ""
    for examples in (_open, _closed):
        try:
            trace = functools.partial(_traced, recipe, choices, examples)
            graph, result = run_inside(preserved(recipe.call.root), trace)
            break
        except Exception as problem:
            # The tracer's or the model's own, of code that PyTorch does not trace so: the model
            # stays refused for what it was refused for.
            said = next(iter(str(problem).splitlines()), "")
            why = f"{type(problem).__name__}: {said}"
    else:
        refused.why = f"PyTorch does not trace this model with its derivatives: {why}"
        return None

    def recorded(*args: Any, **kwargs: Any) -> Any:
        leaves = flat_inputs(recipe.call.model, args, kwargs).values()
        found = iter(graph.forward(*(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))))
        return nesting.replace(result, lambda _, leaf: next(found) if _is_traced(leaf) else leaf)

    return dataclasses.replace(recipe, body=recorded)


def _traced(recipe: Recipe, choices: Choices, examples: Callable, _: Any) -> Any:
    from torch._decomp import decomposition_table
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.nn.attention import SDPBackend, sdpa_kernel

    returned: list[Any] = []

    def call(*tensors: torch.Tensor) -> Any:
        args, kwargs = arguments(recipe.call, dict(zip(recipe.call.names, tensors)))
        # This kernel for attention is made of operators that have derivatives.
        with (
            sdpa_kernel(SDPBackend.MATH),
            patching.hooks({torch.autograd.grad: _of_whole, torch.func.jacfwd: _backwards}),
            _Plainer(),
        ):
            result = recipe.call.model(*args, **kwargs)
        # PyTorch would rebuild a container, with proxies in place of its tensors.
        returned[:] = [result]
        return [leaf for _, leaf in nesting.leaves(result) if _is_traced(leaf)]

    # Derivatives have operators of their own, which are decomposed into others.
    backward: Any = {
        op: f
        for op, f in decomposition_table.items()
        if "backward" in op.name() and not choices.of(op.name())
    }
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)  # it tells at length of what is asked in another way next
    try:
        trace = make_fx(call, backward, tracing_mode="fake", _allow_non_fake_inputs=True)
        given = examples(recipe)
        # Python says more operators in sizes that stay open, and C++ has fewer of them.
        is_open = any(isinstance(n, torch.SymInt) for tensor in given for n in tensor.shape)
        with enable_python_dispatcher() if is_open else contextlib.nullcontext():
            graph = trace(*given)
        graph.graph.eliminate_dead_code()  # some traced calls only serve shapes
        graph.recompile()
        return graph, *returned
    finally:
        log.setLevel(level)


def _is_traced(leaf: Any) -> bool:
    return isinstance(leaf, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool))


class _Plainer(TorchFunctionMode):
    """Rewrite a function by others, if its derivative is an operator without a converter."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        own = torch_bodies.handed(func)
        if own is not func:  # which would hand itself to the tracer's mode by that name, too
            return torch_bodies.opened(own)(*args, **(kwargs or {}))
        if func is torch.nn.functional.grid_sample:
            sampled = _sampled(*args, **(kwargs or {}))
            if sampled is not None:
                return sampled
        if func in (torch.unbind, torch.Tensor.unbind):
            parts = _parts(*args, **(kwargs or {}))
            if parts is not None:
                return parts
        if func is torch.nn.functional.linear:
            return _linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    """Compute a linear layer without joining axes, whose length C++ fixes in `torch.func`."""
    if input.dim() <= 2 or weight.dim() != 2:
        return torch.nn.functional.linear(input, weight, bias)
    made = torch.matmul(input, weight.t())
    return made if bias is None else made + bias


class _Parts(Sequence):
    """The numbers of a vector as long as a size: to count them would fix the size."""

    def __init__(self, whole: torch.Tensor) -> None:
        self.whole = whole

    def __getitem__(self, i: Any) -> Any:
        return tuple(self)[i]

    def __len__(self) -> int:
        return len(tuple(self))

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.ops.aten.unbind(self.whole))


def _parts(input: torch.Tensor, dim: int = 0) -> _Parts | None:
    one = input.dim() == 1 and isinstance(input.shape[0], torch.SymInt)
    return _Parts(input) if one else None


def _of_whole(original: Callable, args: tuple, kwargs: dict) -> Any:
    """Differentiate the sum of a vector in place of each number."""
    outputs, inputs, given, *rest = args
    if isinstance(outputs, _Parts) and given is None:
        outputs = outputs.whole.sum()
    return original(outputs, inputs, given, *rest, **kwargs)


def _backwards(original: Callable, args: tuple, kwargs: dict) -> Any:
    """The same Jacobian, computed row by row: forward mode does not keep sizes open."""
    function, places, with_more = args
    return torch.func.jacrev(function, places, has_aux=with_more)


def _sampled(
    input: torch.Tensor,
    grid: torch.Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """Sample images at other places; for volumes PyTorch does not describe its computation."""
    from torch._decomp import decomposition_table

    how = (
        (mode, ("bilinear", "nearest", "bicubic")),
        (padding_mode, ("zeros", "border", "reflection")),
    )
    if input.dim() != 4 or any(word not in words for word, words in how):
        return None
    numbers = [words.index(word) for word, words in how]
    plain = decomposition_table[torch.ops.aten.grid_sampler_2d.default]
    return plain(input, grid, *numbers, bool(align_corners))


def _closed(recipe: Recipe) -> list[torch.Tensor]:
    """The tensors themselves: what follows from their sizes is a number then."""
    return [tensor.detach().clone() for tensor in recipe.inputs.values()]


def _open(recipe: Recipe) -> list[torch.Tensor]:
    """Tensors without contents, in whose shapes the sizes that may change are symbols."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        ShapeEnv,
        StatelessSymbolicContext,
    )

    sizes = ShapeEnv(duck_shape=False, specialize_zero_one=False)
    mode = FakeTensorMode(shape_env=sizes, allow_non_fake_inputs=True)
    made: list[torch.Tensor] = []
    for name, tensor in recipe.inputs.items():
        axes = recipe.request.sizes.get(name, {})
        kinds = [
            DimDynamic.DYNAMIC if i in axes else DimDynamic.STATIC for i in range(tensor.dim())
        ]
        context: Any = StatelessSymbolicContext(dynamic_sizes=kinds)
        made.append(mode.from_tensor(tensor.detach(), symbolic_context=context))
    return made

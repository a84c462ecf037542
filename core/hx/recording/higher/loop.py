"""torch.while_loop: Loop."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...graph.blocks import write_loop
from ...graph.op import Op
from ...ir.value import Value
from ...text import with_article
from ..memory.tensor_values import value_of
from ..recording import Recording
from .part import Higher, check_carried, named, result_of


def while_loop(recording: Recording, original, args, kwargs):
    cond_fn, body_fn, carried, more = named(
        args, kwargs, cond_fn=..., body_fn=..., carried_inputs=..., additional_inputs=()
    )
    call = Higher(recording, "torch.while_loop")
    first = _state(call, tuple(carried))
    leaves, spec = pytree.tree_flatten(first)
    start = cond_fn(*first, *more)
    with call.engine():
        begin = call.value(start)
        states = [value_of(recording, leaf) for leaf in leaves]
    inputs: list[Value] = []

    def once() -> Any:
        given = []
        with call.engine():
            for leaf, state in zip(leaves, states):
                tensor, edge = call.input(state, leaf, state.shape or ())
                given.append(tensor)
                inputs.append(edge)
        new = body_fn(*pytree.tree_unflatten(given, spec), *more)
        new = _state(call, tuple(new))
        return cond_fn(*new, *more), *pytree.tree_leaves(new)

    part = call.part(once)
    with call.engine():
        again, *ends = part.values
        check_carried(call, states, ends)
        assert again is not None and begin is not None
        op = Op(call.builder)
        steps = op.input(torch.int64, ()), op.input(torch.bool, ())
        if again.rank or begin.rank:
            call.refuse("cond_fn has to return a scalar")
        body = part.body([*steps, *inputs])
        values = write_loop(call.builder, None, begin, [*map(call.edge, states)], body)
    plain, kinds = pytree.tree_flatten(tuple(carried))

    def run() -> list[Any]:
        now = [x.detach().clone() if isinstance(x, torch.Tensor) else int(x) for x in plain]
        again = not any(t.is_meta for t in leaves)
        while again and bool(cond_fn(*pytree.tree_unflatten(now, kinds), *more)):
            now = pytree.tree_leaves(tuple(body_fn(*pytree.tree_unflatten(now, kinds), *more)))
        return now

    real = call.real(run)
    with call.engine():
        result = [result_of(call, r, v, s.shape) for r, v, s in zip(real, values, states)]
    call.done()
    return pytree.tree_unflatten(result, kinds)


def _state(call: Higher, tree: Any) -> Any:
    """Make tensors of numbers that a loop carries: they differ in each round."""

    def as_tensor(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf
        if isinstance(leaf, bool) or not isinstance(leaf, int):
            call.refuse(f"{with_article(leaf)} cannot go round a loop", "carry a tensor")
        with call.engine():
            made = torch.tensor(int(leaf))
            call.recording.memory.live.bind(made, call.builder.number(leaf, torch.int64))
            return made

    return pytree.tree_map(as_tensor, tree)

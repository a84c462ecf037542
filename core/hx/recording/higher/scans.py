"""scan and its relatives, map and associative_scan: all of them become Scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...graph.axes import moved
from ...graph.blocks import write_scan
from ...graph.op import Op
from ...ir.value import Value
from ..memory.tensor_values import value_of
from ..recording import Recording
from .part import Higher, check_carried, named


def scanned(
    call: Higher, step: Callable, init: list[torch.Tensor], xs: list[torch.Tensor],
    axis: int = 0, reverse: bool = False,
) -> list[Any]:  # fmt: skip
    """`step(carry, slices)` gives the next carry and what is stacked, both as flat lists."""
    recording = call.recording
    inputs: list[Value] = []
    with call.engine():
        states = [value_of(recording, t) for t in init]
        parts = [value_of(recording, t) for t in xs]

    def once() -> Any:
        carry, slices = [], []
        with call.engine():
            for state, tensor in zip(states, init):
                given, edge = call.input(state, tensor, state.shape or ())
                carry.append(given)
                inputs.append(edge)
            for value, tensor in zip(parts, xs):
                sizes = list(value.shape or ())
                del sizes[axis]
                given, edge = call.input(value, tensor.select(axis, 0), sizes)
                slices.append(given)
                inputs.append(edge)
        new, out = step(carry, slices)
        return (*new, *out)

    if any(t.shape[axis] == 0 for t in xs):
        call.refuse("there is nothing to go over: a size is 0")
    part = call.part(once)
    ends, outs = part.values[: len(init)], part.values[len(init) :]
    steps = (parts[0].shape or ())[axis]
    with call.engine():
        check_carried(call, states, ends)
        kept = [v for v in outs if v is not None]
        # Along the first axis: along another one, onnxruntime ends the process where some axis
        # has no elements.
        turned = [moved(Op(call.builder), v, v.rank, axis, 0) for v in map(call.edge, parts)]
        body = part.body(inputs)
        directions: dict[str, list[int]] = {}
        if reverse:
            directions["scan_input_directions"] = [1] * len(turned)
            directions["scan_output_directions"] = [1] * len(kept)
        begin = [*map(call.edge, states)]
        found = write_scan(call.builder, begin, turned, body, **directions)
        stacked = [
            moved(Op(call.builder), v, 1 + edge.rank, 0, min(axis, out.rank))
            for v, edge, out in zip(found[len(states) :], part.edges[len(states) :], kept)
        ]
        made = iter([*found[: len(states)], *stacked])

    real = call.real(lambda: _run(step, init, xs, axis, reverse))
    result: list[Any] = []
    with call.engine():
        for tensor, state in zip(real, states):
            result.append(call.bind(tensor, next(made), state.shape))
        for tensor, out in zip(real[len(init) :], outs):
            if out is None:
                result.append(None)
                continue
            sizes = [call.outside(n, part.nodes) for n in out.shape or ()]
            sizes.insert(min(axis, out.rank), steps)
            result.append(call.bind(tensor, next(made), sizes))
    call.done()
    return result


def _run(
    step: Callable, init: list[torch.Tensor], xs: list[torch.Tensor], axis: int, reverse: bool
) -> list[Any]:
    """The last carry, and a stack of each output, as PyTorch computes them."""
    carry, rows = [t.detach().clone() for t in init], []
    order = range(xs[0].shape[axis])
    for i in reversed(order) if reverse else order:
        carry, row = step(carry, [t.select(axis, i) for t in xs])
        carry = list(carry)
        rows.append(list(row))
    rows = rows[::-1] if reverse else rows
    stacks = [
        None if row[0] is None else torch.stack(row, min(axis, row[0].dim()))
        for row in (list(r) for r in zip(*rows))
    ]
    return [*carry, *stacks]


def scan(recording: Recording, original, args, kwargs):
    combine, init, xs, dim, reverse = named(
        args, kwargs, combine_fn=..., init=..., xs=..., dim=0, reverse=False
    )
    first, kind = pytree.tree_flatten(init)
    leaves, form = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    call = Higher(recording, "torch._higher_order_ops.scan")
    found: list[Any] = []

    def step(carry, slices):
        new, out = combine(pytree.tree_unflatten(carry, kind), pytree.tree_unflatten(slices, form))
        flat, spec = pytree.tree_flatten(out)
        found[:] = [spec]
        return pytree.tree_leaves(new), flat

    result = scanned(call, step, first, leaves, dim % leaves[0].dim(), reverse)
    ends, outs = result[: len(first)], result[len(first) :]
    return pytree.tree_unflatten(ends, kind), pytree.tree_unflatten(outs, found[0])


def scan_op(recording: Recording, original, args, kwargs):
    """Handle the underlying operator: flat lists, always along the first axis."""
    combine, init, xs, more = named(
        args, kwargs, combine_fn=..., init=..., xs=..., additional_inputs=()
    )
    call = Higher(recording, "torch.ops.higher_order.scan")

    def step(carry, slices):
        found = list(combine(*carry, *slices, *more))
        return found[: len(init)], found[len(init) :]

    return scanned(call, step, list(init), list(xs))


def mapped(recording: Recording, original, args, kwargs):
    f, xs, *more = args
    call = Higher(recording, "torch._higher_order_ops.map")
    leaves, form = pytree.tree_flatten(xs)
    return each(call, lambda *slices: f(pytree.tree_unflatten(slices, form), *more), leaves)


def map_op(recording: Recording, original, args, kwargs):
    f, xs, more = named(args, kwargs, f=..., xs=..., pos_args=())
    call = Higher(recording, "torch.ops.higher_order.map_impl")
    return each(call, lambda *slices: f(*slices, *more), list(xs))


def each(call: Higher, function: Callable, xs: list[torch.Tensor]) -> Any:
    found: list[Any] = []

    def step(carry, slices):
        flat, spec = pytree.tree_flatten(function(*slices))
        found[:] = [spec]
        return [], flat

    outs = scanned(call, step, [], xs)
    return pytree.tree_unflatten(outs, found[0])


def associative_scan(recording: Recording, original, args, kwargs):
    """Convert associative_scan; a carried flag marks the first element, which is its own result."""
    combine, xs, dim, reverse = named(
        args, kwargs, combine_fn=..., xs=..., dim=..., reverse=False, combine_mode="pointwise"
    )[:4]
    leaves, form = pytree.tree_flatten(xs)
    axis = dim % leaves[0].dim()
    call = Higher(recording, "torch._higher_order_ops.associative_scan")

    def step(carry, slices):
        begun, before = carry[0], carry[1:]
        both = combine(pytree.tree_unflatten(before, form), pytree.tree_unflatten(slices, form))
        new = [torch.where(begun, b, x) for b, x in zip(pytree.tree_leaves(both), slices)]
        return [torch.ones_like(begun), *new], new

    start = [torch.tensor(False), *(x.select(axis, 0) for x in leaves)]
    result = scanned(call, step, start, leaves, axis, reverse)
    return pytree.tree_unflatten(result[1 + len(leaves) :], form)

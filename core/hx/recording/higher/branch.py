"""torch.cond: If."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...graph.blocks import write_if
from ...graph.op import Op
from ...ir import shapes
from ...ir.value import Node
from ..memory.tensor_values import value_of
from ..recording import Recording
from . import condition
from .part import Higher, kind, named, result_of


def cond(recording: Recording, original, args, kwargs):
    pred, true_fn, false_fn, operands = named(
        args, kwargs, pred=..., true_fn=..., false_fn=..., operands=()
    )
    call = Higher(recording, "torch.cond")
    with call.engine():
        if isinstance(pred, torch.Tensor):
            test: Any = value_of(recording, pred)
            taken = pred.is_meta or bool(pred)
        else:
            test, taken = condition.computed(recording, pred), bool(pred)
    if test is None or test.fixed:
        return (true_fn if taken else false_fn)(*operands)
    yes = call.part(lambda: true_fn(*operands))
    no = call.part(lambda: false_fn(*operands))
    if yes.spec != no.spec:
        call.refuse("the two branches return different structures")
    with call.engine():
        for a, b in zip(yes.values, no.values):
            if a is None and b is None:
                continue
            if a is None or b is None or kind(a) != kind(b):
                call.refuse("the two branches return tensors of different dtypes or ranks")
        real = (yes if taken else no).leaves
        op = Op(call.builder)
        flat = test if test.rank == 0 else op.Squeeze(test)
        made = iter(write_if(call.builder, flat, yes.body(), no.body()))
        result = [
            None if a is None else result_of(call, leaf, next(made), _shared(call, yes.nodes, a, b))
            for leaf, a, b in zip(real, yes.values, no.values)
        ]
    call.done()
    return pytree.tree_unflatten(result, yes.spec)


def taken(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """The result of torch.cond without its compiler, which cannot run inside a recording."""
    return (true_fn if pred else false_fn)(*operands)


def _shared(call: Higher, nodes: list[Node], a: Any, b: Any) -> list[int | None]:
    """Sizes that are the same in both branches."""
    both = zip(a.shape, b.shape)
    return [call.outside(m, nodes) if shapes.same(m, n) else None for m, n in both]

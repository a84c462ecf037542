"""The one writer of blocks: the bodies of If, Loop and Scan, checked before they are written.

Branches of an If must agree in number, dtype and rank of their outputs. A state of a Loop or Scan
must keep its dtype from its start through every round. Values that a block reads from outside need
not be listed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .. import dtypes
from ..errors import BuilderError
from ..ir.value import Body, Node, Value
from .writers import BlockWriter


@contextlib.contextmanager
def inner_nodes(builder: BlockWriter, own_sizes: bool = True) -> Iterator[list[Node]]:
    """Collect the nodes written meanwhile in a list of their own.

    With `own_sizes`, sizes that are computed among them are not read from outside.
    """
    outer, builder.nodes = builder.nodes, []
    kept = builder.sizes.scope() if own_sizes else None
    try:
        yield builder.nodes
    finally:
        builder.nodes = outer
        if own_sizes:
            builder.sizes.restore(kept)


@contextlib.contextmanager
def rewriting(builder: BlockWriter) -> Iterator[None]:
    """Compute sizes anew among the nodes written meanwhile, and restore the origin of nodes."""
    origin, kept = builder.origin, builder.sizes.scope(empty=True)
    try:
        yield
    finally:
        builder.origin = origin
        builder.sizes.restore(kept)


def block(inputs: Sequence[Value], outputs: Sequence[Value], nodes: list[Node]) -> Body:
    if len(set(map(id, inputs))) < len(inputs):
        raise BuilderError("a block takes the same value as two of its inputs")
    return Body(list(inputs), list(outputs), nodes)


def write_if(builder: BlockWriter, test: Any, yes: Body, no: Body) -> list[Value]:
    """The outputs of an If that takes one of two blocks."""
    _require_bool("If", test)
    if len(yes.outputs) != len(no.outputs):
        raise BuilderError(
            f"the blocks of an If have {len(yes.outputs)} and {len(no.outputs)} outputs"
        )
    for index, (first, second) in enumerate(zip(yes.outputs, no.outputs)):
        _require_same_dtype(f"output {index} of the blocks of an If", first, second)
        if first.shape is not None and second.shape is not None and first.rank != second.rank:
            raise BuilderError(
                f"output {index} of the blocks of an If has rank {first.rank} and {second.rank}"
            )
    bodies = {"then_branch": yes, "else_branch": no}
    return builder.emit("If", [test], bodies, len(yes.outputs))


def write_loop(
    builder: BlockWriter, rounds: Any, going: Any, states: Sequence[Any], body: Body
) -> list[Value]:
    """Write a Loop; return its last states, followed by its stacked outputs.

    The block takes the number of the round, whether the loop goes on, and the states; it returns
    whether to go on, the next states, and the outputs to stack.
    """
    _require_bool("Loop", going)
    _require_bool("a round of a Loop", body.outputs[0])
    _require_states("Loop", states, body.inputs[2:], body.outputs[1:])
    return builder.emit("Loop", [rounds, going, *states], {"body": body}, len(body.outputs) - 1)


def write_scan(
    builder: BlockWriter,
    states: Sequence[Any],
    slices: Sequence[Any],
    body: Body,
    **axes_and_directions: list[int],
) -> list[Value]:
    """Write a Scan; return its last states, followed by its stacked outputs."""
    attributes = {"body": body, "num_scan_inputs": len(slices), **axes_and_directions}
    if len(body.inputs) != len(states) + len(slices):
        raise BuilderError(f"the block of a Scan takes {len(body.inputs)} inputs")
    _require_states("Scan", states, body.inputs[: len(states)], body.outputs)
    return builder.emit("Scan", [*states, *slices], attributes, len(body.outputs))


def _require_states(
    op: str, begin: Sequence[Any], taken: Sequence[Value], given: Sequence[Value]
) -> None:
    if len(begin) != len(taken) or len(given) < len(begin):
        raise BuilderError(
            f"a {op} begins with {len(begin)} states; its block takes {len(taken)} and gives "
            f"{len(given)} values"
        )
    for index, (first, inner, after) in enumerate(zip(begin, taken, given)):
        _require_same_dtype(f"state {index} of a {op}", first, inner)
        _require_same_dtype(f"state {index} of a {op}", inner, after)


def _require_bool(name: str, value: Any) -> None:
    dtype = _dtype(value)
    if dtype not in (torch.bool, None):
        raise BuilderError(f"{name} needs a bool, but got {dtypes.name(dtype)}")


def _require_same_dtype(name: str, first: Any, second: Any) -> None:
    one, other = _dtype(first), _dtype(second)
    if one is not None and other is not None and one != other:
        raise BuilderError(f"{name} is {dtypes.name(one)} and {dtypes.name(other)}")


def _dtype(x: Any) -> torch.dtype | None:
    """The dtype of a value or tensor; None for a number, which takes the one that fits."""
    return getattr(x, "dtype", None)

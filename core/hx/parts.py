"""A graph that is right part by part, where rounding decides what comes out in the end.

A model may ask which of two numbers is larger that only rounding tells apart: a threshold, an
argmax, a place in a sorted list. PyTorch and onnxruntime do not round alike, and after such a
question everything may differ, though nothing is wrong. The results prove nothing then, but the
parts do: each value that the model had becomes an input of the file, and what the file makes of it
from the model's own values before it an output. Where all of these agree, within what one step may
be off by, the graph computes what the model computes, step by step; a mistake in it, and a size or
a number that was baked in, would show in its own part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import wire
from .claims import Hidden
from .errors import HxError
from .nodes import BUDGET, Kept, check_nodes, record_again
from .registration import OPSETS
from .runtime import Refused
from .surely import inside

if TYPE_CHECKING:
    import torch

    from .capture import Capture
    from .verify import Case


def decided_by_rounding(
    captured: Capture, path: Path, case: Case, target: Path, custom_ops: Sequence[Any] = ()
) -> str:
    """Where the results part, if all parts of the graph are right on these inputs; else nothing."""
    if captured.opset not in OPSETS:  # a file of somebody else's
        return ""
    try:
        if not _right(captured, path, case, target, custom_ops):
            return ""
        options: Any = {"target": target, "custom_ops": custom_ops, "until_off": True}
        row = check_nodes(captured, path, case, **options).first_off
    except (Refused, HxError, OSError):  # what does not run again proves nothing
        return ""
    return f"{row.op} of {row.target or '?'} at {row.where}" if row else "the end of the graph"


def _right(
    captured: Capture, path: Path, case: Case, target: Path, custom_ops: Sequence[Any]
) -> bool:
    from .halves import passed
    from .verify import compared

    kept = Kept(BUDGET, 0)
    names = record_again(captured, case, kept)[1]
    if kept.size > BUDGET or kept.unseen:
        return False
    model = wire.skeleton(path)
    made = {name for node in model.graph.node for name in node.output if name}
    values = {names[id(v)]: t for v, t in kept.pairs if names.get(id(v)) in made}
    coarse = passed(model) if case.computed is not None else ()
    ends = {o.name: want for o, want in zip(model.graph.output, case.expected)}
    if any(
        compared(values[name], want, 1).problem for name, want in ends.items() if name in values
    ):
        return False  # the model does not agree with itself

    def right(name: str, got: torch.Tensor) -> bool:
        want = values[name] if name in values else ends[name]
        computed = case.computed if name in coarse else None
        return not compared(got, want, 1, computed=computed).problem

    results = _run(path, target, case, values, custom_ops)
    return all(right(name, got) for name, got in results.items())


def _run(
    path: Path,
    target: Path,
    case: Case,
    values: Mapping[str, torch.Tensor],
    custom_ops: Sequence[Any],
) -> dict[str, torch.Tensor]:
    """What the file makes of each value, and of its outputs, from the model's values before it."""
    import onnx

    from .verify import loader
    from .weights import onnx_dtype

    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    own = {name: f"{name}::made" for name in values}
    for node in graph.node:
        node.output[:] = [own.get(name, name) for name in node.output]
    known = [info for info in graph.value_info if info.name not in own]
    del graph.value_info[:]
    graph.value_info.extend(known)
    listed = [output.name for output in graph.output]
    for output in graph.output:
        output.name = own.get(output.name, output.name)
    more = [name for name in values if name not in listed]
    graph.output.extend(onnx.ValueInfoProto(name=own[name]) for name in more)
    graph.input.extend(
        onnx.helper.make_tensor_value_info(name, int(onnx_dtype(tensor.dtype)), None)
        for name, tensor in values.items()
    )

    def run(hidden: Hidden) -> dict[str, torch.Tensor]:
        copy = hidden.create(target).path
        copy.write_bytes(model.SerializeToString())
        results = loader(copy, model, custom_ops)[1](False)({**case.feeds, **values})
        return dict(zip([*listed, *more], results))

    return inside(Hidden(), run)

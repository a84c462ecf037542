"""Where a graph that failed its proof goes wrong: the first node, and what was baked into it.

The model is recorded once more, on the inputs that failed, keeping every tensor. Two things come
of it. The tensors are compared with what the rejected file computes on the same inputs, node by
node: the first that is off is where it broke. And the two recordings are laid side by side: a
constant that changed is a size or value that was baked in, and where they stop being alike, a
branch was taken the other way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .errors import HxError

if TYPE_CHECKING:
    import onnx_ir

    from .capture import Capture
    from .verify import Case

MOST = 5  # findings of a kind that are told
SMALL = 16  # elements of a constant that are compared


def locate(captured: Capture, model: onnx_ir.Model, path: Any, case: Case) -> list[str]:
    """What to tell about a case that failed, most telling first."""
    try:
        other, kept = _again(captured, case)
    except (HxError, Exception):  # the model need not run twice for its error to be told
        return []
    lines = list(_apart(model, other))[:MOST]
    first = _first_off(path, case, kept)
    return [*([first] if first else []), *lines]


def _again(captured: Capture, case: Case) -> tuple[onnx_ir.Model, dict[str, Any]]:
    """The recording of the failed inputs, its graph, and the tensors of it by name."""
    from . import graph
    from .capture import capture

    prepared = dataclasses.replace(captured.prepared, tensors=dict(case.feeds))
    keep: list[tuple[Any, Any]] = []
    again = capture(prepared, captured.registry, captured.opset, captured.wanted, keep)
    names: dict[int, str] = {}
    recording = again.recording
    other = graph.build(
        recording.builder.nodes,
        [v for _, v in again.inputs],
        [
            (name, recording.as_output(value))
            for (name, _), (_, value) in zip(captured.outputs, again.outputs)
        ],
        opset=captured.opset,
        domains=recording.builder.domains,
        classes=again.classes,
        name=again.name,
        names=names,
    )
    kept = {names[id(value)]: tensor for value, tensor in keep if id(value) in names}
    return other, kept


def _first_off(path: Any, case: Case, kept: dict[str, Any]) -> str:
    """The first node of the rejected file whose result is not the model's."""
    import onnx

    from .compare import Tolerance, difference
    from .runtime import Refused, Session

    model = onnx.load(path)
    listed = {value.name for value in model.graph.output}
    nodes = []
    for node in model.graph.node:
        for name in node.output:
            if name in kept and name not in listed:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
        nodes.append(node)
    names = [value.name for value in model.graph.output]
    try:
        results = dict(
            zip(names, Session(model.SerializeToString(), optimized=False).run(case.feeds))
        )
    except (Refused, ValueError):  # ValueError: too large for one message
        return ""
    for depth, node in enumerate(nodes, 1):
        for name in node.output:
            if name not in kept or name not in results:
                continue
            found = difference(
                results[name], kept[name], Tolerance.for_dtype(kept[name].dtype, depth)
            )
            if found.problem:
                about = {p.key: p.value for p in node.metadata_props}
                return (
                    f"first off: {node.op_type} of {about.get('hx.target', '?')} at "
                    f"{_line(about)}: {found.problem}; shape {list(results[name].shape)}, "
                    f"converter from {about.get('hx.pack', '?')}"
                )
    return ""


def _apart(model: onnx_ir.Model, other: onnx_ir.Model) -> Iterator[str]:
    """Constants that differ between two recordings, up to where the recordings part."""
    for a, b in zip(model.graph, other.graph):
        about = dict(a.metadata_props)
        if a.op_type != b.op_type or len(a.inputs) != len(b.inputs):
            yield (
                f"a branch: at {_line(about)} the recording has {a.op_type}, and on the inputs that "
                f"failed {b.op_type} at {_line(dict(b.metadata_props))}"
            )
            return
        for name, value in a.attributes.items():
            second = b.attributes.get(name)
            if second is not None and not value.is_ref() and value.value != second.value:
                yield _baked(about, f"{a.op_type}.{name}", value.value, second.value)
        for x, y in zip(a.inputs, b.inputs):
            old, new = _small(x), _small(y)
            if old is not None and new is not None and old != new:
                yield _baked(about, about.get("hx.target", a.op_type), old, new)
    if len(list(model.graph)) != len(list(other.graph)):
        yield "a loop: the two recordings have different numbers of nodes"


def _baked(about: dict[str, str], what: str, old: Any, new: Any) -> str:
    return f"baked in at {_line(about)}: {what} has {old}, and needs {new} here"


def _small(value: Any) -> Any:
    tensor = None if value is None else value.const_value
    if tensor is None or tensor.size > SMALL:
        return None
    return tensor.numpy().tolist()


def _line(about: dict[str, str]) -> str:
    scope = about.get("hx.module")
    return about.get("hx.source", "an unknown line") + (f" (in {scope})" if scope else "")

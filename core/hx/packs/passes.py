"""Graph passes that packs contribute, run on the finished model in a fixed order."""

from __future__ import annotations

from typing import Any

from ..contributions import GraphPass
from ..errors import ConverterError
from ..graph.model_parts import Parts
from ..safe_import import safe_import
from .guarded import guarded


def run(parts: Parts, registry: Any) -> tuple[Parts, list[GraphPass]]:
    """Run every pass, in the order of packs and names; also give those that changed the graph."""
    if not registry.passes:
        return parts, []
    safe_import("onnx_ir")
    from ..saving import ir

    model, changed = ir.put_together(parts), []
    parts = ir.take_apart(model)
    for graph_pass in sorted(registry.passes, key=lambda p: (p.pack, p.name)):
        name = f"the graph pass {graph_pass.name} ({graph_pass.pack})"
        without = left_out(registry, graph_pass)
        hint = f"leave its pack out with {without}, and tell its author" if without else ""
        with guarded(f"{name} raised", ConverterError, hint):
            returned = graph_pass.result(model)
        if not isinstance(returned, type(model)):
            raise ConverterError(
                f"{name} returned {type(returned).__name__}, not an onnx_ir.Model",
                why="a pass changes the model that it is given, or returns another",
                hint=hint,
            )
        model = returned
        before, parts = parts, ir.take_apart(model)
        if _graph(before) != _graph(parts):
            changed.append(graph_pass)
    return parts, changed


def left_out(registry: Any, graph_pass: GraphPass) -> str:
    """The option that leaves out the pack of a pass; empty where it is not from an installed pack."""
    if registry.is_by_hand(graph_pass):
        return ""
    return f"--no-pack {registry.label(graph_pass.pack)}"


def _graph(parts: Parts) -> tuple[bytes, list[Any]]:
    """The model without its metadata; a weight is identified by its tensor."""
    weights: Any = parts.weights
    return parts.graph_bytes, [(each.proto.name, id(each.values.tensor)) for each in weights]

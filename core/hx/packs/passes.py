"""Graph passes that packs contribute, run on the finished model in a fixed order."""

from __future__ import annotations

from typing import Any

from .. import whole
from ..contributions import GraphPass
from ..errors import ConverterError
from ..saving.wire import Parts
from .guarded import guarded


def run(parts: Parts, registry: Any) -> tuple[Parts, list[GraphPass]]:
    """The model after every pass, each by name of its pack; and those that changed its graph."""
    if not registry.passes:
        return parts, []
    whole.imported("onnx_ir")
    from ..saving import ir

    model, changed = ir.put_together(parts), []
    parts = ir.take_apart(model)
    for graph_pass in sorted(registry.passes, key=lambda p: (p.pack, p.name)):
        name = f"the graph pass {graph_pass.name} ({graph_pass.pack})"
        without = left_out(registry, graph_pass)
        hint = f"leave its pack out with {without}, and tell its author" if without else ""
        with guarded(f"{name} raised", ConverterError, hint):
            returned = graph_pass.run(model)
        if returned is not None and not isinstance(returned, type(model)):
            raise ConverterError(
                f"{name} returned {type(returned).__name__}, and no onnx_ir.Model",
                why="a pass changes the model that it is given, or returns another",
                hint=hint,
            )
        model = model if returned is None else returned
        before, parts = parts, ir.take_apart(model)
        if _graph(before) != _graph(parts):
            changed.append(graph_pass)
    return parts, changed


def left_out(registry: Any, graph_pass: GraphPass) -> str:
    """The option that does without a pass; none for what was given by hand, and not installed."""
    if registry.is_by_hand(graph_pass):
        return ""
    return f"--no-pack {registry.label(graph_pass.pack)}"


def _graph(parts: Parts) -> tuple[bytes, list[Any]]:
    """All but what is written about a model; a weight that is another tensor is another weight."""
    weights: Any = parts.weights
    return parts.graph_bytes, [(each.proto.name, id(each.values.tensor)) for each in weights]

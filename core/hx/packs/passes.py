"""Graph passes that packs contribute, run on the finished model in a fixed order."""

from __future__ import annotations

from typing import Any

from .. import whole
from ..errors import ConverterError
from ..saving.wire import Parts
from .guarded import guarded


def run(parts: Parts, registry: Any) -> Parts:
    """The model after every pass, each by name of its pack."""
    if not registry.passes:
        return parts
    whole.imported("onnx_ir")
    from ..saving import ir

    model = ir.put_together(parts)
    for graph_pass in sorted(registry.passes, key=lambda p: (p.pack, p.name)):
        name = f"the graph pass {graph_pass.name} ({graph_pass.pack})"
        hint = f"leave its pack out with --no-pack {graph_pass.pack}, and tell its author"
        with guarded(f"{name} raised", ConverterError, hint):
            returned = graph_pass.run(model)
        if returned is not None and not isinstance(returned, type(model)):
            raise ConverterError(
                f"{name} returned {type(returned).__name__}, and no onnx_ir.Model",
                why="a pass changes the model that it is given, or returns another",
                hint=hint,
            )
        model = model if returned is None else returned
    return ir.take_apart(model)

"""Graph passes that packs contribute, run on the finished model in a fixed order."""

from __future__ import annotations

from typing import Any

from .. import whole
from ..errors import ConverterError, HxError
from ..saving.wire import Parts


def run(parts: Parts, registry: Any) -> Parts:
    """The model after every pass, each by name of its pack."""
    if not registry.passes:
        return parts
    whole.imported("onnx_ir")
    from ..saving import ir

    model = ir.put_together(parts)
    for graph_pass in sorted(registry.passes, key=lambda p: (p.pack, p.name)):
        try:
            model = graph_pass.run(model) or model
        except HxError:
            raise
        except Exception as e:  # a pack's code: it is told as the pack's
            raise ConverterError(
                f"the graph pass {graph_pass.name} ({graph_pass.pack}) raised "
                f"{type(e).__name__}: {e}",
                hint=f"leave its pack out with --no-pack {graph_pass.pack}, and tell its author",
            ) from e
    return ir.take_apart(model)

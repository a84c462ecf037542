"""onnxruntime's own operators, for graphs that are made for onnxruntime.

    model = hx_ort.quantize(model)      # its Linear layers in 4 bits; MatMulNBits in the graph

Attention and rotary embedding in one node are chosen at the export, see the README.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hx_ort.linear4 import Linear4, quantize

__all__ = ["Linear4", "quantize"]


def __getattr__(name: str):
    """On first use: torch takes a second to import, and listing packs shall not wait for it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hx_ort import linear4

    return getattr(linear4, name)

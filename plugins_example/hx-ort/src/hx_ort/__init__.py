"""onnxruntime's own operators, for graphs that are made for onnxruntime.

    model = hx_ort.quantize(model)      # its Linear layers in 4 bits; MatMulNBits in the graph

Attention in one node is chosen at the export, see the README.
"""

from hx_ort.linear4 import Linear4, quantize

__all__ = ["Linear4", "quantize"]

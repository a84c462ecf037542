"""Sparse convolutions in ONNX's own operators: the graph runs in any onnxruntime."""

"""Runs of a file: in onnxruntime, in onnx's reference evaluator, or with Python kernels."""

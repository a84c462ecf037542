"""Converters of acme_nn.hardswish to ONNX, for hx."""

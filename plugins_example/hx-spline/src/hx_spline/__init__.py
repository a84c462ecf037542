"""Converters of acme_nn.spline to ONNX, for hx."""

"""Converters of torchvision's own operators and detection models to ONNX, for hx."""

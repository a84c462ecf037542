"""Converters of spconv to ONNX, for hx: in standard operators, or in operators of their own."""

"""Each function here is its target, rewritten in ONNX."""

from hx import case, converter

CASES = [
    case("float32[batch,4]"),
    case("float32[batch,3,h,w]", expect=["HardSwish"]),
    case("float32[batch,4]", width=2.0, expect=["Clip"]),
]


@converter("acme_nn.hardswish", since=14, cases=CASES)
def hardswish(op, x, width=3.0):
    """One operator where ONNX has it (from opset 14, for a width of 3), and else what it means."""
    if width == 3.0:
        return op.HardSwish(x)
    return op.Div(op.Mul(x, op.Clip(op.Add(x, width), 0, 2 * width)), 2 * width)

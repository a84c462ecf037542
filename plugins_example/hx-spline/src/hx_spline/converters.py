"""Each function here is its target, rewritten in ONNX."""

from hx import case, converter
from hx.lazy import acme_nn, torch
from hx_spline import masked

DOMAIN = "com.acme"


@converter(
    "acme_nn.spline",
    requires="acme-nn>=2",
    domain=DOMAIN,
    cases=[
        case(
            "float32[batch,4]",
            lambda: torch.linspace(-1, 1, 5),
            "float32[5]",
            expect=["com.acme::Spline"],
        )
    ],
)
def spline(op, x, knots, values):
    """One node of acme's runtime, which has a kernel for it."""
    return op(DOMAIN, "Spline", x, knots, values, version=1)


@converter(
    "acme_nn.settle",
    cases=[case(lambda: acme_nn.Masked(torch.randn(2, 3), torch.eye(2, 3) > 0))],
)
def settle(op, batch, default=0.0):
    """`batch` arrives as the library's own class, holding values; so does the result leave."""
    ones = op.Expand(op.constant(True), op.sizes(batch.counts.shape))
    settled = op.Where(batch.counts, batch.numbers, op.constant(default, batch.numbers.dtype))
    return masked.unflatten({"numbers": settled, "counts": ones}, None)

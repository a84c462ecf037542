"""Each function here is its target, rewritten in ONNX with operators of onnxruntime's own."""

from hx import case, converter
from hx.lazy import torch
from hx_converters import attention

DOMAIN = "com.microsoft"


@converter(
    "hx_ort.linear4.Linear4.forward",
    domain=DOMAIN,
    cases=[
        case("float32[n,64]", init=(lambda: torch.nn.Linear(64, 5),),
             expect=["com.microsoft::MatMulNBits"]),
        case("float32[n,3,40]", init=(lambda: torch.nn.Linear(40, 5, bias=False), 16)),
    ],
)  # fmt: skip
def linear4(op, self, input):
    """The product with 4-bit weights: they stay so in the file and in memory."""
    sizes = {"K": self.columns, "N": self.rows, "bits": 4, "block_size": self.block}
    y = op(DOMAIN, "MatMulNBits", input, self.codes, self.scales, version=1, **sizes,
           results=[(input.dtype, [*input.shape[:-1], self.rows])])  # fmt: skip
    return y if self.bias is None else op.Add(y, self.bias)


@converter(
    "torch.nn.functional.scaled_dot_product_attention",
    domain=DOMAIN,
    optional=True,
    cases=[
        case(*("float32[n,2,s,4]",) * 3, expect=["com.microsoft::MultiHeadAttention"]),
        case(*("float32[n,3,5,4]",) * 3, scale=0.3, expect=["com.microsoft::MultiHeadAttention"]),
        case("float32[n,3,5,4]", "float32[n,3,s,4]", "float32[n,3,s,4]"),
        case(*("float32[n,2,s,4]",) * 3, is_causal=True),
    ],
)
def scaled_dot_product_attention(op, query, key, value, attn_mask=None, dropout_p=0.0,
                                 is_causal=False, scale=None, enable_gqa=False):  # fmt: skip
    """In one node where a sequence sees all of itself.

    Masked, onnxruntime's node was measured no faster; and of keys and values that are kept from
    step to step it would have to be given the transpose.
    """
    heads, width = query.shape[-3] if query.rank > 3 else None, query.shape[-1]
    alike = [x.rank == 4 and op.same(x.shape[:3], query.shape[:3]) for x in (key, value)]
    fits = query.dtype == torch.float32 and type(heads) is type(width) is int and all(alike)
    if not fits or attn_mask is not None or is_causal or dropout_p:
        return attention.scaled_dot_product_attention(
            op, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
        )

    def flat(x):
        """[batch, heads, length, width] as [batch, length, heads * width]."""
        n, _, length, each = x.shape
        return op.Reshape(op.Transpose(x, perm=[0, 2, 1, 3]), op.sizes([n, length, heads * each]))

    n, length, each = query.shape[0], query.shape[2], value.shape[-1]
    y = op(DOMAIN, "MultiHeadAttention", flat(query), flat(key), flat(value), version=1,
           num_heads=heads, scale=width**-0.5 if scale is None else float(scale),
           results=[(query.dtype, [n, length, heads * each])])  # fmt: skip
    return op.Transpose(op.Reshape(y, op.sizes([n, length, heads, each])), perm=[0, 2, 1, 3])

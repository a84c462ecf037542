"""What transformers' language models write out, and onnxruntime does better in another form."""

from hx import converter
from hx.lazy import torch

from .converters import DOMAIN

# Families of transformers whose functions of this name turn all of a head, half against half.
TURNING = (
    "gemma", "gemma2", "gemma3", "granite", "granitemoe", "llama", "mistral",
    "mixtral", "olmo", "olmo2", "olmoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3",
    "starcoder2",
)  # fmt: skip


@converter(
    *(f"transformers.models.{name}.modeling_{name}.apply_rotary_pos_emb" for name in TURNING),
    domain=DOMAIN,
    optional=True,
)
def apply_rotary_pos_emb(op, q, k, cos, sin, unsqueeze_dim=1):
    """A node for the queries and one for the keys, which take the angles of half a head."""
    whole = all(
        x.dtype == torch.float32 and x.rank == rank and op.same(x.shape[-1], cos.shape[-1])
        for x, rank in ((q, 4), (k, 4), (cos, 3), (sin, 3))
    )
    if not whole or unsqueeze_dim != 1 or not (alike(op, cos, "Cos") and alike(op, sin, "Sin")):
        return NotImplemented
    cos, sin = (op.Slice(x, [0], [x.shape[-1] // 2], [-1]) for x in (cos, sin))
    return tuple(turned(op, x, cos, sin) for x in (q, k))


def alike(op, x, function):
    """Whether both halves of the last axis are the same: the function of angles laid out twice."""
    known = op.contents(x)
    if known is not None:
        return torch.equal(*known.chunk(2, -1))
    node = x.node
    while node is not None and node.op in ("Mul", "Cast"):
        scaled = node.op == "Cast" or node.inputs[1].shape == ()
        node = node.inputs[0].node if scaled else None
    if node is None or node.op != function:
        return False
    node = node.inputs[0].node
    last = node is not None and node.op == "Concat" and node.attributes["axis"] in (-1, x.rank - 1)
    return last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]


def turned(op, x, cos, sin):
    """onnxruntime's own node reads the angles from a table, by position: here, row after row."""
    batch, length = x.shape[0], cos.shape[1]
    if op.opset >= 23:
        sizes = op.sizes([batch, length, cos.shape[2]])
        return op.RotaryEmbedding(x, op.Expand(cos, sizes), op.Expand(sin, sizes))
    rows = op.Range(0, op.constant(cos.shape[0] * length), 1)
    rows = op.Reshape(rows, op.sizes([cos.shape[0], length]))
    rows = op.Expand(rows, op.sizes([batch, length]))
    tables = (op.Reshape(each, op.sizes([-1, each.shape[2]])) for each in (cos, sin))
    return op(DOMAIN, "RotaryEmbedding", x, rows, *tables, version=1, results=[(x.dtype, x.shape)])

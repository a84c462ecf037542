"""mamba-ssm: a state that is carried along a sequence, as a Scan."""

from hx import case, converter
from hx.lazy import torch

U = "float32[b,6,l]"
STATES = "float32[6,4]<1"


@converter("mamba_ssm.ops.selective_scan_interface.selective_scan_fn", cases=[
    case(U, U, lambda: -torch.rand(6, 4), "float32[b,4,l]", "float32[b,4,l]",
         D="float32[6]", z=U, delta_bias="float32[6]", delta_softplus=True, expect=["Scan"]),
    case(U, "float32[b,6,l]<1", lambda: -torch.rand(6, 4), "float32[b,2,4,l]", "float32[b,2,4,l]",
         return_last_state=True, name="groups, last state"),
    case(U, "float32[b,6,l]<1", lambda: -torch.rand(6, 4), STATES, STATES, name="constant B and C"),
])  # fmt: skip
def selective_scan_fn(op, u, delta, A, B, C, D=None, z=None, delta_bias=None,
                      delta_softplus=False, return_last_state=False):  # fmt: skip
    if A.dtype.is_complex:
        op.refuse("a complex state has no ONNX form", "use a model with a real A")
    dtype = u.dtype
    u, delta, A, B, C = (op.cast(x, torch.float32) for x in (u, delta, A, B, C))
    if delta_bias is not None:
        delta = op.Add(delta, op.Unsqueeze(op.cast(delta_bias, torch.float32), [1]))
    if delta_softplus:
        delta = op.Softplus(delta)
    batch, channels, _ = u.shape
    B, C = (_by_channel(op, x, channels) for x in (B, C))
    varying = [x for x in (B, C) if x.rank == 4]  # [batch, channels, states, length]

    def step(state, now, d, *rest):
        rest = list(rest)
        b, c = (rest.pop(0) if x.rank == 4 else x for x in (B, C))
        kept = op.Mul(op.Exp(op.Mul(op.Unsqueeze(d, [2]), A)), state)
        state = op.Add(kept, op.Mul(op.Unsqueeze(op.Mul(d, now), [2]), b))
        return state, op.ReduceSum(op.Mul(state, c), [2], keepdims=0)

    start = op.Expand(op.constant(0.0), op.sizes([batch, channels, A.shape[1]]))
    given = [u, delta, *varying]
    inputs = [op.input(torch.float32, x.shape[:-1]) for x in given]
    body = op.body(step, op.input(torch.float32, start.shape), *inputs)
    last, y = op.Scan(start, *given, body=body, num_scan_inputs=len(given),
                      scan_input_axes=[x.rank - 1 for x in given], scan_output_axes=[2],
                      outputs=2)  # fmt: skip
    last.sized(start.shape)
    y.sized(u.shape)
    if D is not None:
        y = op.Add(y, op.Mul(u, op.Unsqueeze(op.cast(D, torch.float32), [1])))
    if z is not None:
        gate = op.cast(z, torch.float32)
        y = op.Mul(y, op.Mul(gate, op.Sigmoid(gate)))
    y = op.cast(y, dtype)
    return (y, last) if return_last_state else y


def _by_channel(op, x, channels):
    """[channels, states] as it is, and else [batch, channels, states, length]."""
    if x.rank == 2:
        return x
    if x.rank == 3:
        return op.Unsqueeze(x, [1])
    batch, groups, states, length = x.shape
    times = channels // groups
    wide = op.Expand(op.Unsqueeze(x, [2]), op.sizes([batch, groups, times, states, length]))
    return op.Reshape(wide, op.sizes([batch, channels, states, length]))

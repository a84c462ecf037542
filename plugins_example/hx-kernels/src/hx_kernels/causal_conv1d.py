"""causal-conv1d: every channel by itself, and no step sees those behind it."""

from hx import case, converter

X, WEIGHT = "float32[b,6,l]", "float32[6,4]"


@converter("causal_conv1d.causal_conv1d_fn", cases=[
    case(X, WEIGHT, "float32[6]", activation="silu", expect=["Conv"]),
    case(X, WEIGHT, return_final_states=True, name="last states"),
    case(X, WEIGHT, "float32[6]", initial_states="float32[b,6,3]", return_final_states=True,
         activation="swish", name="first and last states"),
])  # fmt: skip
def causal_conv1d_fn(op, x, weight, bias=None, seq_idx=None, initial_states=None,
                     return_final_states=False, final_states_out=None, activation=None):  # fmt: skip
    if seq_idx is not None or final_states_out is not None:
        op.refuse("seq_idx and final_states_out have no ONNX form", "call it without them")
    before = weight.shape[1] - 1
    if initial_states is None:
        lengthened = op.Pad(x, [0, 0, before, 0, 0, 0])
    else:
        lengthened = op.Concat(op.cast(initial_states, x.dtype), x, axis=2)
    kernel = op.cast(op.Unsqueeze(weight, [1]), x.dtype)
    bias = None if bias is None else op.cast(bias, x.dtype)
    y = op.Conv(lengthened, kernel, bias, group=weight.shape[0])
    if activation is not None:
        y = op.Mul(y, op.Sigmoid(y))
    if return_final_states:
        return y, op.Slice(lengthened, op.sizes([x.shape[2]]), [2**31], [2])
    return y


STATE = "float32[b,6,3]"


@converter("causal_conv1d.causal_conv1d_update", cases=[
    case("float32[b,6]", STATE, WEIGHT, "float32[6]", activation="silu", name="one step"),
    case("float32[b,6,2]", STATE, WEIGHT, name="two steps"),
    case("float32[b,6]", "float32[b,6,5]", WEIGHT, "float32[6]", name="a longer state"),
])  # fmt: skip
def causal_conv1d_update(op, x, conv_state, weight, bias=None, activation=None,
                         cache_seqlens=None, conv_state_indices=None, *others, **more):  # fmt: skip
    """Steps that follow: it reads what the state keeps of those before, and writes to it."""
    given = (cache_seqlens, conv_state_indices, *others, *more.values())
    if any(one is not None for one in given):
        op.refuse("cache_seqlens and conv_state_indices have no ONNX form", "call it without them")
    steps = x if x.rank == 3 else op.Unsqueeze(x, [2])
    whole = op.Concat(conv_state, op.cast(steps, conv_state.dtype), axis=2)
    op.assign(conv_state, op.Slice(whole, op.sizes([steps.shape[2]]), [2**31], [2]))
    seen = op.sizes([conv_state.shape[2] + 1 - weight.shape[1]])
    kernel = op.cast(op.Unsqueeze(weight, [1]), x.dtype)
    bias = None if bias is None else op.cast(bias, x.dtype)
    y = op.Conv(op.cast(op.Slice(whole, seen, [2**31], [2]), x.dtype), kernel, bias,
                group=weight.shape[0])  # fmt: skip
    if activation is not None:
        y = op.Mul(y, op.Sigmoid(y))
    return y if x.rank == 3 else op.Squeeze(y, [2])

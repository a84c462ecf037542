"""The public functions of causal-conv1d, and what they compute according to their documentation."""

import torch

__version__ = "1.5.0"


def causal_conv1d_fn(x, weight, bias=None, seq_idx=None, initial_states=None,
                     return_final_states=False, final_states_out=None, activation=None):  # fmt: skip
    dim, width = weight.shape
    if initial_states is None:
        initial_states = x.new_zeros(len(x), dim, width - 1)
    whole = torch.cat([initial_states, x], -1)
    y = torch.nn.functional.conv1d(whole, weight[:, None], bias, groups=dim)
    y = y if activation is None else torch.nn.functional.silu(y)
    return (y, whole[..., x.shape[-1] :]) if return_final_states else y


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None,
                         conv_state_indices=None):  # fmt: skip
    steps = x if x.dim() == 3 else x[..., None]
    whole = torch.cat([conv_state, steps], -1).to(weight.dtype)
    conv_state.copy_(whole[..., -conv_state.shape[-1] :])
    y = torch.nn.functional.conv1d(whole, weight[:, None], bias, groups=weight.shape[0])
    y = y[..., -steps.shape[-1] :]
    y = (y if activation is None else torch.nn.functional.silu(y)).to(x.dtype)
    return y if x.dim() == 3 else y[..., 0]

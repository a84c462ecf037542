"""The public function of mamba-ssm, and what it computes according to its documentation."""

import torch


def selective_scan_fn(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False,
                      return_last_state=False):  # fmt: skip
    dtype, channels = u.dtype, u.shape[1]
    u, delta = u.float(), delta.float()
    if delta_bias is not None:
        delta = delta + delta_bias[:, None]
    if delta_softplus:
        delta = torch.nn.functional.softplus(delta)

    def at(x, i):
        """[batch, channels, states] at step i."""
        if x.dim() == 2:
            return x
        if x.dim() == 3:
            return x[:, None, :, i]
        return x[..., i].repeat_interleave(channels // x.shape[1], 1)

    state = u.new_zeros(len(u), channels, A.shape[1])
    found = []
    for i in range(u.shape[-1]):
        now = delta[:, :, i, None]
        state = torch.exp(now * A) * state + now * at(B, i) * u[:, :, i, None]
        found.append((state * at(C, i)).sum(-1))
    y = torch.stack(found, -1)
    y = y if D is None else y + u * D[:, None]
    y = y if z is None else y * torch.nn.functional.silu(z.float())
    return (y.to(dtype), state) if return_last_state else y.to(dtype)

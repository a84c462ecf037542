"""Converters of kernels that need a GPU (flash-attn, mamba-ssm, causal-conv1d), for hx."""

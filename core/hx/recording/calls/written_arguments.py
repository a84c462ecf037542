"""The tensors that a recorded call writes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ... import torch_facts
from .arguments import tensors_in


def written_arguments(
    key: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """List the tensors that a call writes to."""
    found = torch_facts.mutated(func, args, dict(kwargs))
    if torch_facts.writes(key, func, args, dict(kwargs)):
        found += [t for _, t in tensors_in([args[:1], kwargs.get("out")])]
    return found


def uncounted_writes(
    key: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """List the tensors that a call writes to, and whose version does not change with it.

    Versions change later for an operator, and never in `inference_mode`.
    """
    found = torch_facts.mutated(func, args, dict(kwargs))
    if torch_facts.writes(key, func, args, dict(kwargs)):
        first = tensors_in([args[:1], kwargs.get("out")])
        found += [tensor for _, tensor in first if tensor.is_inference()]
    return found

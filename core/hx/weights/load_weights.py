"""Weights of a file or folder, put into a model that is in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .checkpoint import contents, plain_names, unlike
from .tensor_files import in_memory, read, state_dict

if TYPE_CHECKING:
    from torch import nn


def load_weights(model: nn.Module, path: Path) -> None:
    """Put the weights of a file or folder into the model; every one of them has to fit."""
    found: Mapping[str, Any]
    if path.is_dir() or path.name.endswith(".index.json"):
        found = {name: content.load() for name, content in contents(path).items()}
    else:
        found = state_dict(read(path), path)
    found = plain_names(found)
    mine = model.state_dict()
    missing = [key for key in mine if key not in found]
    extra = [key for key in found if key not in mine]
    sizes = [
        f"{key} is {list(found[key].shape)} in the file and {list(mine[key].shape)} in the model"
        for key in mine
        if key in found and mine[key].shape != found[key].shape
    ]
    shared = _shared(mine)
    missing = [key for key in missing if not any(twin in found for twin in shared[key])]
    if missing or extra or sizes:
        raise UsageError(
            f"{path} does not fit the model",
            why="\n         ".join([*unlike(missing, extra), *sizes[:5]]),
            hint="give the file that was saved from this model, or the SPEC it was made with",
        )
    model.load_state_dict(dict(found), strict=False)


def _shared(state: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names that share a storage: safetensors files keep a shared weight once."""
    by_place: dict[tuple[Any, ...], list[str]] = {}
    for key, value in state.items():
        # A sparse tensor has no memory of its own.
        place = value.data_ptr() if in_memory(value) else id(value)
        by_place.setdefault((place, tuple(value.shape)), []).append(key)
    return {key: twins for twins in by_place.values() for key in twins}

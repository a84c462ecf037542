"""Files of tensors: inputs and weights, from .npz, .safetensors and .pt, never running a pickle."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hx.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

TORCH = (".pt", ".pth", ".bin", ".ckpt")


def read(path: Path, mapped: bool = False) -> Any:
    """What a file holds: by name (a dict), or in order (a tuple, or one tensor).

    With `mapped`, tensors of a .pt file stay there until they are looked at, if it allows that.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".npy", ".safetensors", *TORCH):
        raise UsageError(
            f"{path}: hx does not read {suffix or 'files without a suffix'}",
            hint="tensors are read from .npz, .safetensors and .pt files",
        )
    try:
        if suffix in (".npz", ".npy"):
            return _numpy(path)
        return _safetensors(path) if suffix == ".safetensors" else _torch(path, mapped)
    except UsageError:
        raise
    except (
        Exception
    ) as problem:  # four readers, each with errors of its own for what is no such file
        text = str(problem).strip()
        first = text.splitlines()[0] if text else type(problem).__name__
        raise UsageError(
            f"{path} cannot be read as {suffix}",
            why=first,
            hint="the file may be truncated, or of another kind than its name says",
        ) from None


def _numpy(path: Path) -> Any:
    import numpy
    import torch

    try:
        with numpy.load(path, allow_pickle=False) as found:
            return {name: torch.from_numpy(found[name]) for name in found.files}
    except ValueError as problem:
        if "allow_pickle" in str(problem) or "pickle" in str(problem):
            raise _pickled(path, "Python objects in a numpy file are pickles") from None
        raise
    except (AttributeError, TypeError):
        array = numpy.load(path, allow_pickle=False)
        return torch.from_numpy(array)


def _safetensors(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


def _torch(path: Path, mapped: bool) -> Any:
    import zipfile

    import torch

    mapped = mapped and zipfile.is_zipfile(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as problem:
        wanted = [
            line for line in str(problem).splitlines() if "GLOBAL" in line or "Unsupported" in line
        ]
        raise _pickled(path, wanted[0].strip() if wanted else "") from None
    except RuntimeError as problem:
        if "TorchScript" in str(problem):
            raise _pickled(path, "it is a TorchScript archive, which holds code") from None
        raise


def _pickled(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} holds pickled code, or objects other than tensors; hx does not run it",
        why=why.removeprefix("WeightsUnpickler error: "),
        hint="save tensors only: safetensors.torch.save_file(model.state_dict(), path)",
    )


def load_weights(model: nn.Module, path: Path) -> None:
    """Puts the weights of a file or folder into the model; every one of them has to fit."""
    found: Mapping[str, Any]
    if path.is_dir() or path.name.endswith(".index.json"):
        from hx.checkpoint import contents

        found = {name: content.load() for name, content in contents(path).items()}
    else:
        found = state_dict(read(path), path)
    if found and all(str(key).startswith("module.") for key in found):
        found = {str(key)[len("module.") :]: value for key, value in found.items()}
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
        told = [f"missing: {_few(missing)}"] * bool(missing) + [f"unknown: {_few(extra)}"] * bool(
            extra
        )
        raise UsageError(
            f"{path} does not fit the model",
            why="\n         ".join(told + sizes[:5]),
            hint="give the file that was saved from this model, or the SPEC it was made with",
        )
    model.load_state_dict(dict(found), strict=False)


def state_dict(found: Any, path: Path) -> Mapping[str, Any]:
    """The tensors by name in what a file holds, also when they are one entry of a checkpoint."""
    import torch

    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping):
        raise UsageError(f"{path} holds no state dict, but a {type(found).__name__}")
    odd = [key for key, value in found.items() if not isinstance(value, torch.Tensor)]
    if odd:
        raise UsageError(
            f"{path} holds no state dict: {odd[0]!r} is a {type(found[odd[0]]).__name__}"
        )
    return found


def _shared(state: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of the same storage: files of safetensors keep a shared weight once."""
    by_place: dict[tuple[Any, ...], list[str]] = {}
    for key, value in state.items():
        by_place.setdefault((value.data_ptr(), tuple(value.shape)), []).append(key)
    return {key: twins for twins in by_place.values() for key in twins}


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

"""Weights in files, by name: a file, a folder with an index, or several files without one.

Of safetensors only the headers are read: eight bytes with the length of a text in JSON, which says
of each tensor its dtype, its shape, and where in the rest of the file it lies. Other formats are
read by `inputs.files`, which runs no pickled code. Imports torch: import it late.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..errors import UsageError
from ..text import first_few
from .contents import Content, Held, Stored
from .tensor_files import TORCH, absent, near_file, read, state_dict

MAX_HEADER_BYTES = 100 << 20  # bytes of a header, as in the safetensors library itself
INDEXES = ("*.safetensors.index.json", "*.bin.index.json")
_NAMES = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "I8": "int8",
    "I16": "int16", "I32": "int32", "I64": "int64", "F16": "float16", "BF16": "bfloat16",
    "F32": "float32", "F64": "float64", "C64": "complex64", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
}  # fmt: skip
_DTYPES = {name: getattr(torch, ours) for name, ours in _NAMES.items() if hasattr(torch, ours)}


def contents(path: Path) -> dict[str, Content]:
    """Return the contents of the weights at a path, by name."""
    if path.is_dir():
        return _folder(path)
    if path.name.endswith(".index.json"):
        return _indexed(path)
    return _file(path)


def _folder(folder: Path) -> dict[str, Content]:
    for pattern in INDEXES:
        found = sorted(folder.glob(pattern))
        if found:
            return _indexed(_main(found, folder))
    shards = sorted(folder.glob("*.safetensors"))
    if shards and all("-of-" in path.name for path in shards):
        return _together(shards)
    found = shards or sorted(path for suffix in TORCH for path in folder.glob(f"*{suffix}"))
    if not found:
        raise UsageError(
            f"there are no weights in {folder}",
            hint="a folder of weights has .safetensors files, or an index of them "
            "(model.safetensors.index.json)",
        )
    return _file(_main(found, folder))


def _main(found: list[Path], folder: Path) -> Path:
    """The only file, or the one that is called model."""
    named = [path for path in found if path.name.split(".")[0] == "model"]
    if len(found) > 1 and len(named) != 1:
        listed = ", ".join(path.name for path in found[:5])
        raise UsageError(
            f"{folder} holds several sets of weights: {listed}",
            hint=f"name one of them, such as {found[0]}",
        )
    return named[0] if len(found) > 1 else found[0]


def _indexed(index: Path) -> dict[str, Content]:
    """Read an index, which is JSON too: {"weight_map": {name of a tensor: name of its file}}."""
    try:
        places = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        named = {str(name): str(file) for name, file in places.items()}
    except OSError as problem:
        raise UsageError(f"{index} cannot be read: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError(
            f"{index} is not an index of weights",
            why='it has no "weight_map" of tensors and their files',
        ) from None
    shards: dict[str, dict[str, Content]] = {}
    found = {}
    for name, file in named.items():
        if Path(file).name != file or file in ("", ".", ".."):
            raise UsageError(f"{index} names a file outside of its folder: {file!r}")
        if file not in shards:
            shards[file] = _file(index.with_name(file))
        if name not in shards[file]:
            raise UsageError(f"{index} says that {name} is in {file}, but it is not")
        found[name] = shards[file][name]
    return found


def _together(shards: list[Path]) -> dict[str, Content]:
    found: dict[str, Content] = {}
    for shard in shards:
        part = _file(shard)
        twice = found.keys() & part.keys()
        if twice:
            raise UsageError(f"{shard} holds {min(twice)}, which another file holds too")
        found.update(part)
    return found


def _file(path: Path) -> dict[str, Content]:
    if not path.is_file():
        raise UsageError(absent(path), hint=near_file(path))
    if path.suffix.lower() == ".safetensors":
        return safetensors(path)
    return {
        name: Held(tensor) for name, tensor in state_dict(read(path, mapped=True), path).items()
    }


def safetensors(path: Path) -> dict[str, Content]:
    """Read the header of one file, and check it against the size of the file."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
            size = int.from_bytes(start, "little")
            room = path.stat().st_size - 8 - size
            if len(start) < 8 or size > MAX_HEADER_BYTES or room < 0:
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(size))
        if not isinstance(header, dict):
            raise ValueError("its header is no table")
        header.pop("__metadata__", None)
        return {name: _entry(path, name, said, 8 + size, room) for name, said in header.items()}
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise UsageError(
            f"{path} cannot be read as .safetensors",
            why=str(problem).splitlines()[0],
            hint="the file may be truncated, or of another kind than its name says",
        ) from None


def _entry(path: Path, name: str, said: Any, start: int, room: int) -> Stored:
    try:
        spelled, shape, (begin, end) = said["dtype"], said["shape"], said["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"{name!r} lacks a dtype, a shape or its place") from None
    if not all(type(n) is int and n >= 0 for n in (*_list(shape, name), begin, end)):
        raise ValueError(f"{name!r} has a shape or a place that is none")
    if not isinstance(spelled, str) or spelled not in _DTYPES:
        raise ValueError(f"{name!r} has the dtype {spelled!r}, which hx does not know")
    dtype = _DTYPES[spelled]
    if end > room or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name!r} does not fit its place in the file")
    return Stored(path, start + begin, dtype, tuple(shape))


def _list(shape: Any, name: str) -> list:
    if not isinstance(shape, list):
        raise ValueError(f"{name!r} has a shape that is none")
    return shape


def unlike(missing: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """List the weights of a model that a file lacks, and those of the file that the model lacks."""
    both = {"missing": missing, "unknown": unknown}
    return [f"{what}: {first_few(names)}" for what, names in both.items() if names]


def plain_names(found: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the `module.` that DataParallel puts in front of every name."""
    if found and all(name.startswith("module.") for name in found):
        return {name.removeprefix("module."): content for name, content in found.items()}
    return dict(found)

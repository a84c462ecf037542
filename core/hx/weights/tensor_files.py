"""Files of tensors: inputs and weights, from .npz, .safetensors and .pt, never running a pickle."""

from __future__ import annotations

import difflib
import pickle
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hx.errors import UsageError
from hx.free_memory import free_memory, gigabytes
from hx.text import first_line, with_article

TORCH = (".pt", ".pth", ".bin", ".ckpt")


def read(path: Path, mapped: bool = False, times: int = 1) -> Any:
    """Read the tensors of a file: by name (a dict), or in order (a tuple, or one tensor).

    With `mapped`, tensors of a .pt file are read only when used, if the file allows that.
    Compressed data has to fit into memory `times` times.
    """
    if not path.is_file():
        raise UsageError(absent(path), hint=near_file(path))
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".npy", ".safetensors", *TORCH):
        raise UsageError(
            f"{path}: hx does not read {suffix or 'files without a suffix'}",
            hint="tensors are read from .npz, .safetensors and .pt files",
        )
    try:
        if suffix in (".npz", ".npy"):
            found = _numpy(path, times)
        elif suffix == ".safetensors":
            found = _safetensors(path)
        else:
            found = _torch(path, mapped, times)
        _require_sound(found)
        return found
    except (UsageError, ModuleNotFoundError):
        raise
    except Exception as problem:  # of four readers, each with errors of its own
        raise UsageError(
            f"{path} cannot be read as {suffix}",
            why=first_line(problem),
            hint="the file may be truncated, or of another kind than its name says",
        ) from None


def absent(path: Path) -> str:
    """The message for a file that is not there, or is no file."""
    return f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}"


def near_file(path: Path) -> str:
    """Return a hint: a file of the same suffix beside it with a similar name, or of its name here.

    Nothing is suggested for a path that leads to a folder.
    """
    if path.is_dir():
        return ""
    beside = {each.name: each for each in path.parent.glob(f"*{path.suffix}")}
    near = [path.with_name(name) for name in difflib.get_close_matches(path.name, beside, 1)]
    here = [Path(path.name), *sorted(Path().glob(f"*/{path.name}"))]
    found = next((each for each in [*near, *here] if each.is_file()), None)
    return f"did you mean {found}?" if found else ""


def _numpy(path: Path, times: int) -> Any:
    import numpy

    _require_room(path, times)
    try:
        found = numpy.load(path, allow_pickle=False)
        if isinstance(found, numpy.ndarray):
            return _of_array("the array", found)
        with found:
            return {name: _of_array(repr(name), found[name]) for name in found.files}
    except ValueError as problem:
        if "allow_pickle" in str(problem) or "pickle" in str(problem):
            if not _begins_as_numpy(path):  # numpy takes whatever it does not know for a pickle
                raise ValueError("it does not begin as a file of numpy does") from None
            raise _pickled(path, "Python objects in a numpy file are pickles") from None
        raise


def _begins_as_numpy(path: Path) -> bool:
    with path.open("rb") as file:
        return zipfile.is_zipfile(path) or file.read(6) == b"\x93NUMPY"


def _of_array(name: str, array: Any) -> Any:
    import numpy
    import torch

    if not isinstance(array, numpy.ndarray):
        raise ValueError(f"{name} is no array")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(array)
    except TypeError:
        raise ValueError(f"{name} holds {array.dtype}, which torch has no tensor for") from None


def _safetensors(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


PICKLE = b"\x80"  # first byte of older torch.save files: now they are archives


def _torch(path: Path, mapped: bool, times: int) -> Any:
    import torch

    packed = zipfile.is_zipfile(path)
    with path.open("rb") as file:
        if not packed and file.read(1) != PICKLE:
            raise ValueError("torch.save has not written it")
    if packed and any(Path(record.filename).name == "constants.pkl" for record in _records(path)):
        raise _pickled(path, "it is a TorchScript archive, which holds code")
    mapped = mapped and packed and _lies_as_it_is(path)
    if packed and not mapped:
        _require_room(path, times)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        if mapped:
            _require_whole(path, found)
        return found
    except pickle.UnpicklingError as problem:
        wanted = [
            line for line in str(problem).splitlines() if "GLOBAL" in line or "Unsupported" in line
        ]
        # The rest of the message explains how to run it all the same.
        why = re.sub(
            r" was not an allowed global by default\..*", " is in it", " ".join(wanted[:1])
        )
        raise _pickled(path, why.replace("Unsupported global: GLOBAL ", "").strip()) from None


def _records(path: Path) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(path) as archive:
        return archive.infolist()


def _require_room(path: Path, times: int) -> None:
    """Raise if the unpacked data does not fit: a few kilobytes may unpack to any size."""
    if not zipfile.is_zipfile(path):
        return
    size, room = sum(record.file_size for record in _records(path)), free_memory().memory
    if times * size > room:
        often = f", which a run needs {times} times" if times > 1 else ""
        raise ValueError(
            f"it unpacks to {gigabytes(size)}{often}, and {gigabytes(room)} of memory are left"
        )


def _lies_as_it_is(path: Path) -> bool:
    """Return True if no tensor is compressed; otherwise the file cannot be mapped as memory."""
    return all(record.compress_type == zipfile.ZIP_STORED for record in _records(path))


def _require_whole(path: Path, found: Any) -> None:
    """Raise if a tensor has fewer bytes than it needs: PyTorch does not check mapped files."""
    there = Counter(record.file_size for record in _records(path))
    storages = {}
    for tensor in _tensors(found):
        if in_memory(tensor):
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    for size, count in Counter(storages.values()).items():
        if size and there[size] < count:
            raise ValueError(f"a tensor needs {size} bytes, and no record has as many")


def _require_sound(found: Any) -> None:
    for tensor in _tensors(found):
        if tensor.is_nested:
            raise ValueError("it holds a nested tensor")
        size = tensor.numel() * tensor.element_size()
        # One element may be seen as any number of them.
        if in_memory(tensor) and tensor.untyped_storage().nbytes() < size > free_memory().memory:
            raise ValueError(f"it holds a tensor of {gigabytes(size)}")


def in_memory(tensor: Any) -> bool:
    return str(tensor.layout) == "torch.strided" and tensor.device.type == "cpu"


def _tensors(found: Any, within: tuple[int, ...] = ()) -> Iterator[Any]:
    """Yield all tensors, at any depth."""
    import torch

    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, (Mapping, list, tuple)):
        if id(found) in within or len(within) > 100:
            raise ValueError("what it holds is nested without end")
        for each in found.values() if isinstance(found, Mapping) else found:
            yield from _tensors(each, (*within, id(found)))


def _pickled(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} holds pickled code, or objects other than tensors; hx does not run it",
        why=why.removeprefix("WeightsUnpickler error: "),
        hint="save tensors only: `safetensors.torch.save_file(model.state_dict(), path)`",
    )


def state_dict(found: Any, path: Path) -> Mapping[str, Any]:
    """The tensors by name in what a file holds, also when they are one entry of a checkpoint."""
    import torch

    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    why = ""
    if not isinstance(found, Mapping):
        why = f", but {with_article(found)}"
    elif unnamed := [key for key in found if not isinstance(key, str)]:
        why = f": {unnamed[0]!r} is no name"
    elif odd := [key for key, value in found.items() if not isinstance(value, torch.Tensor)]:
        why = f": {odd[0]!r} is {with_article(found[odd[0]])}"
    if why:
        raise UsageError(
            f"{path} holds no state dict{why}",
            hint="save one: torch.save(model.state_dict(), PATH)",
        )
    return found

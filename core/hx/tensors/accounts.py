"""Tensors that no recorded call returned: where they come from, or that nobody can say.

A parameter, a buffer, a global, a table in a closure: they were there before the recording, and are
constants. Memory of numpy's or of a file is too, and is told. Anything else may be computed from
the inputs, by compiled code or in another thread, and stops the export.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from ..errors import Unaccounted, Where
from ..recording import foreign, known
from ..recording.call import tensors_in
from ..report import Missing
from ..sizes import dims
from . import dtypes, memory, sparse
from .liveness import Entry, geometry, storage_key
from .values import Constant, Value

if TYPE_CHECKING:
    from ..recording.recording import Recording


def account(recording: Recording, tensor: torch.Tensor) -> Entry:
    """The entry of a tensor that is met for the first time, if its origin is known."""
    name = recording.names.get(id(tensor))
    if tensor.is_nested:
        sparse.require_known("the model holds or makes", tensor, recording.where())
    storage = storage_key(tensor)
    family = recording.live.families.get(storage)
    if family is not None and not isinstance(family.root, Constant) and family.alive():
        for member in family.alive():
            other = member()
            if other is not None and _shows_the_same(other, tensor):
                # Another object for it, as nn.Parameter(x) makes.
                recording.value_of(other)
                recording.live.alias(tensor, member)
                return recording.live.entries[id(tensor)]
        raise Unaccounted(
            f"a tensor of shape {list(tensor.shape)} shares memory with a recorded one, "
            "and no recorded call made it",
            where=recording.where(),
            why="code that hx cannot see made a view of a traced tensor",
            hint="make the view with a torch function inside forward",
        )
    value = of_arrays(recording, tensor) if name is None else None
    if value is not None:
        return recording.live.bind(tensor, value, storage=storage)
    if name is None and not recording.holders.had(recording, tensor):
        if (not _from_outside(tensor) or not _made_of_numpys(recording)) and _missing(
            recording, tensor
        ):
            return recording.live.entries[id(tensor)]
        if not _from_outside(tensor):
            raise _from_nowhere(
                recording,
                tensor,
                why="no recorded call returned it, and it is no parameter, buffer or constant "
                "that was there before: compiled code or another thread may have computed it "
                "from the inputs",
            )
        if foreign.calls(_running(recording)) and not _made_of_numpys(recording):
            raise _from_nowhere(recording, tensor, why="")
        tell_outside(recording, tensor)
    made = recording.constant(tensor, name or "", storage)
    return recording.live.bind(tensor, made, storage=storage)


def is_another(recording: Recording, tensor: torch.Tensor) -> bool:
    """Whether it is another object for a tensor of the recording, as `as_subclass` makes."""
    family = recording.live.family_of(tensor)
    if family is None or isinstance(family.root, Constant):
        return False
    members = (member() for member in family.alive())
    return any(other is not None and _shows_the_same(other, tensor) for other in members)


_WRAPS = {"from_numpy", "frombuffer", "from_dlpack", "as_tensor", "asarray", "tensor"}


def _made_of_numpys(recording: Recording) -> bool:
    """Whether the function that runs makes tensors of memory that it has itself."""
    code = foreign.code_of(_running(recording))
    return code is not None and not _WRAPS.isdisjoint(code.co_names)


def _running(recording: Recording) -> Any:
    """The user's function that runs; the model when that has returned."""
    return recording.frames.inside() or recording.model


def _from_nowhere(recording: Recording, tensor: torch.Tensor, why: str) -> Unaccounted:
    elsewhere = in_thread(recording)
    if elsewhere is not None:
        return Unaccounted(
            f"a tensor of shape {list(tensor.shape)} was computed in another thread, which a "
            "recording does not see",
            where=elsewhere,
            hint="compute it in the thread that calls the model",
        )
    parts = foreign.told(foreign.calls(_running(recording)), recording.where())
    what = f"a tensor of shape {list(tensor.shape)} came from code that hx could not see"
    return Unaccounted(what, **{"why": why, **parts})


def in_thread(recording: Recording) -> Where | None:
    """Where another thread used tensors of the recording, if one did."""
    return next((e.where for e in recording.escapes.values() if e.kind == "thread"), None)


def _missing(recording: Recording, tensor: torch.Tensor) -> bool:
    """Compiled code that a converter may speak for is missing one: the recording goes on.

    Which of the calls up to here made the tensor is not known, so that all of them are.
    """
    from ..recording.leaves import opaque  # which knows of accounts

    found = [x for x in foreign.calls(_running(recording)) if not recording.choices.named(x.target)]
    if not found or not all(one.has_name for one in found):
        return False
    here = recording.where()
    for one in found:
        where = Where(one.file, one.line, here.scope, here.function)
        missing = recording.missing.setdefault(one.target, Missing(one.target))
        if where not in missing.places:
            missing.add(where, [], f"{one.name} is compiled code")
    opaque(recording, tensor)
    return True


def _shows_the_same(member: torch.Tensor, tensor: torch.Tensor) -> bool:
    return (
        member.dtype == tensor.dtype
        and geometry(member) == geometry(tensor)
        and member.is_conj() == tensor.is_conj()
        and member.is_neg() == tensor.is_neg()
    )


def tell_outside(recording: Recording, tensor: torch.Tensor) -> None:
    """Notes a tensor over memory of numpy's: what is in it was computed where nobody looked.

    When something left the graph before, it may have come back here.
    """
    if not _from_outside(tensor):
        return
    if recording.dry:
        recording.brought.append((recording.where(), tensor.detach().clone()))
    what = (
        f"an array of {list(tensor.shape)} in memory that PyTorch does not own: the graph keeps "
        "what it holds now"
    )
    if recording.escapes or recording.builder.sizes.named:
        recording.escape("from_numpy", what)
    else:
        recording.notes.append(f"from_numpy at {recording.where()}: {what}")


def _from_outside(tensor: torch.Tensor) -> bool:
    if tensor.layout != torch.strided or tensor.is_meta:
        return False
    return not tensor.untyped_storage().resizable()


# What compiled code does: its calls of operators arrive outside of any torch function.

# How it gets memory through PyTorch: what it then writes there by itself, nobody sees.
_ALLOCATES = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty",
                 "new_empty_strided")
)  # fmt: skip


def from_compiled(recording: Recording, key: Any, func: Any, args: tuple, result: Any) -> None:
    """An operator that compiled code called has run."""
    if key in _ALLOCATES:
        for _, tensor in tensors_in(result):
            family = recording.live.family_of(tensor)
            if family is not None and tensor.numel():
                family.unfilled = recording.unfilled = True
        return
    recording.operated.add(recording.where())
    if recording.builder.sizes.named and "SymInt[" in str(getattr(func, "_schema", "")):
        found = [recording.live.find(t) for _, t in tensors_in(list(args))]
        values = [entry.value for entry in found if entry is not None]
        if any(value.dynamic for value in values):
            how = f"{key} is called by compiled code, with sizes as numbers"
            sizes = dims.baked(n for value in values for n in value.shape or ())
            recording.escape("baked", how, asked=sizes)


def require_filled(
    recording: Recording, tensors: Iterable[torch.Tensor], written: Iterable[torch.Tensor] = ()
) -> None:
    """That what is read, unless it is written, was written by somebody who was seen."""
    spared = set(map(id, written))
    for tensor in tensors:
        family = recording.live.family_of(tensor)
        if family is not None and family.unfilled and id(tensor) not in spared:
            if _missing(recording, tensor):
                family.unfilled = False
                continue
            parts = foreign.told(foreign.calls(_running(recording)), recording.where())
            why = "compiled code made it, or it holds whatever the memory held before"
            raise Unaccounted(
                f"a tensor of shape {list(tensor.shape)} was read, and no recorded call wrote it",
                **{"why": why, **parts},
            )


def expose(recording: Recording, tensor: torch.Tensor, how: str) -> None:
    """The address of a tensor's memory was given out: who has it may write there."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        if tensor.is_meta or tensor.layout != torch.strided or memory.is_freed(tensor):
            return
        copy = tensor.detach().clone()
        known = recording.exposed.setdefault(storage_key(tensor), [])
        known.append(Exposed(weakref.ref(tensor), copy, tensor._version, recording.where(), how))


def hand_to_numpy(recording: Recording, tensor: torch.Tensor) -> None:
    """An array is made of a tensor's memory: given back to PyTorch as it is, it is that tensor."""
    if tensor.device.type == "cpu" and not recording.value_of(tensor).fixed:
        expose(recording, tensor, "numpy")
        recording.arrays.append(tensor)  # itself: of x.detach() there may be no other name


def of_array(recording: Recording, array: Any) -> tuple[torch.Tensor | None, Value]:
    """The value of an array, and the tensor whose memory it is, where it is that of one."""
    if recording.arrays:
        address = array.__array_interface__["data"][0]
        known = _at(recording, address, array.shape, array.strides, str(array.dtype))
        if known is not None:
            return known, recording.value_of(known)
    return None, recording.constant(torch.tensor(array))


def of_arrays(recording: Recording, tensor: torch.Tensor) -> Value | None:
    """The value of a tensor that was made of an array, if that is another one's memory."""
    if not recording.arrays or not _from_outside(tensor):
        return None
    strides = tuple(step * tensor.element_size() for step in tensor.stride())
    name = dtypes.name(tensor.dtype)
    known = _at(recording, tensor.data_ptr(), tuple(tensor.shape), strides, name)
    return None if known is None else recording.value_of(known)


def _at(
    recording: Recording, address: int, shape: tuple, strides: tuple, dtype: str
) -> torch.Tensor | None:
    wanted = (address, shape, strides, dtype)
    if not address:
        return None  # of what has no elements, nobody can tell
    for held in recording.arrays:
        if not memory.is_freed(held):
            steps = tuple(step * held.element_size() for step in held.stride())
            found = (held.data_ptr(), tuple(held.shape), steps, dtypes.name(held.dtype))
            if found == wanted:
                return held
    return None


def unwritten(recording: Recording, tensor: torch.Tensor) -> None:
    """That nobody wrote to a tensor through an address that was given out.

    To look at memory asks PyTorch for it: seen by a door, that would give out one more address.
    """
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        known = recording.exposed.get(storage_key(tensor), [])
        for i, each in enumerate(list(known)):
            now = each.tensor()
            if now is None or memory.is_freed(now):
                continue
            if now._version != each.version:  # by PyTorch itself, which is seen
                fresh = now.detach().clone()
                known[i] = dataclasses.replace(each, copy=fresh, version=now._version)
            elif not _same_bits(each.copy, now):
                raise Unaccounted(
                    f"a tensor of shape {list(tensor.shape)} was written to, and no recorded call "
                    "did that",
                    **_writer(recording, each),
                )


def _writer(recording: Recording, each: Exposed) -> dict[str, Any]:
    """Who it was, as far as one knows."""
    if each.how == "numpy":
        return {
            "where": recording.where(),
            "why": f"an array over its memory, made at {each.where}, was written to",
            "hint": "write to the tensor: the graph has what is done with torch",
        }
    parts = foreign.told(foreign.calls(_running(recording)), each.where)
    return {"why": f"whoever got its address by {each.how}() wrote there", **parts}


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


@dataclasses.dataclass(frozen=True)
class Exposed:
    """A tensor whose address was given out, what it held then, and where that was."""

    tensor: weakref.ref
    copy: torch.Tensor
    version: int
    where: Where
    how: str


def written(key: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The arguments that a call writes to."""
    found = known.mutated(func, args, dict(kwargs))
    if known.writes(key, func, args, dict(kwargs)):
        found += [t for _, t in tensors_in([args[:1], kwargs.get("out")])]
    return found


def uncounted(key: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The arguments that a call writes to, and whose version does not tell of it by itself.

    Those of an operator are counted later, and those of `inference_mode` never.
    """
    found = known.mutated(func, args, dict(kwargs))
    if known.writes(key, func, args, dict(kwargs)):
        first = tensors_in([args[:1], kwargs.get("out")])
        found += [tensor for _, tensor in first if tensor.is_inference()]
    return found

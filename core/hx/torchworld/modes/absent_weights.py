"""A model without its weights: their contents are known, and read when they are written to a file.

Weights come from files (`weights=`), are cast on the way (`dtype=`), or both. For a run, small
weights are put into the model as they will be, and large ones as tensors on the meta device, which
have a shape and no contents; afterwards the user's own tensors are back. `blend` lets the model run
like that, and the proof fills in one weight at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ... import dtypes
from ...budget import BUDGET
from ...cleanup import Reversible
from ...errors import UsageError
from ...findings import OPEN, Finding
from ...ir.input_grammar import full_name
from ...tensor_bytes import geometry, storage_key
from ...text import first_few
from ...weights import checkpoint
from ...weights.contents import Content, Held, cast
from ..state import model_locks, shallow

DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclass(eq=False)
class _Own:
    """A parameter or buffer of the model, with all names that it goes by."""

    tensor: torch.Tensor
    names: list[str] = field(default_factory=list)
    kept: bool = False  # True if a state_dict has it


class Slim:
    """Stand-ins for tensors of the model while it runs, and the contents of each."""

    def __init__(self, root: torch.nn.Module) -> None:
        self.root = root
        self.dtype: torch.dtype | None = None
        self.absent: dict[int, tuple[torch.Tensor, Content]] = {}  # by the memory of the stand-in
        self.findings: list[Finding] = []
        self.hollow = False  # True if some tensor has no contents while the model runs
        self._instead: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by id: own, stand-in
        self._twins: dict[Any, torch.Tensor] = {}

    def content(self, tensor: torch.Tensor) -> Content | None:
        """Return the contents of a tensor on the meta device; None when they are not known."""
        found = self.absent.get(storage_key(tensor))
        if found is None:
            return None
        stand_in, content = found
        if geometry(stand_in) == geometry(tensor) and stand_in.dtype == tensor.dtype:
            return content
        return Held(seen_as(content.load(), tensor))

    def given(self, name: str, leaf: Any) -> Any:
        """An input in the dtype of the model; one without contents gets some."""
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.is_meta:
            like = torch.rand if leaf.is_floating_point() else torch.zeros
            leaf = like(leaf.shape, dtype=leaf.dtype)
        return leaf.to(self.dtype) if self.dtype and leaf.is_floating_point() else leaf

    def placed(self) -> _Placed:
        return _Placed(self)

    def _put(self, own: torch.Tensor, content: Content, absent: bool) -> None:
        empty = torch.empty(content.shape, dtype=content.dtype, device="meta")
        made = self._stand_in(own, empty if absent else content.load().clone())
        if absent:
            self.hollow = True
            self.absent[storage_key(made)] = (made, content)

    def _stand_in(self, own: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        """An object of the same kind, with other contents."""
        made = self._twins.get(_memory(own))
        if made is None:
            made = torch.Tensor._make_subclass(type(own), data, own.requires_grad)  # type: ignore[arg-type]
            vars(made).update(vars(own))
            self._twins[_memory(own)] = made
        self._instead[id(own)] = (own, made)
        return made

    def _follow(self, filled: Iterable[_Own]) -> None:
        """Replace views of a weight, such as `self.w_t = self.weight.t()`, by views of the new."""
        by_memory = {storage_key(own.tensor): own for own in filled}
        for path, module in shallow.walk(self.root):
            for name, _, tensor in shallow.Shallow(module).tensors():
                own = by_memory.get(storage_key(tensor))
                if (
                    own is None
                    or id(tensor) in self._instead
                    or id(own.tensor) not in self._instead
                ):
                    continue
                made = self._instead[id(own.tensor)][1]
                whole = own.tensor.is_contiguous() and own.tensor.storage_offset() == 0
                if not whole or made.dtype != own.tensor.dtype:
                    raise UsageError(
                        f"{path}.{name} is a view of {own.names[0]}, which is replaced".lstrip("."),
                        hint="make the view in forward",
                    )
                self._instead[id(tensor)] = (tensor, seen_as(made.detach(), tensor))


def seen_as(whole: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """The elements of a weight that a view of its stand-in shows."""
    if whole.dtype != view.dtype:
        whole = whole.reshape(-1).view(view.dtype)
    return whole.as_strided(*geometry(view))


def plan(
    root: torch.nn.Module,
    weights: str | os.PathLike | None = None,
    dtype: Any = None,
    whole: bool = True,
) -> Slim | None:
    """Plan how to run the model without its weights; None when it has them, unchanged.

    With `whole`, every tensor of the model has to have contents somewhere.
    """
    modules = [module for _, module in shallow.walk(root)]
    if weights is None and dtype is None and not _on_meta(modules):
        return None
    token = object()
    model_locks.take(
        token, modules
    )  # tensors put there by an export in another thread are not the model's
    try:
        return _plan(root, weights, dtype, whole)
    finally:
        model_locks.leave(token)


def _plan(root: torch.nn.Module, weights: Any, dtype: Any, whole: bool) -> Slim | None:
    owned = list(_owned(root).values())
    meta = any(own.tensor.is_meta for own in owned)
    if weights is None and dtype is None and not meta:
        return None
    left: list[str] = []
    found: dict[int, Content] = {}
    if weights is not None:
        found, left = _fitting(owned, Path(weights), dtype is not None, meta)
    if whole:
        _require_contents(owned, found, weights)
    slim = Slim(root)
    if left:
        text = f"not in the weights, and as the model has them: {first_few(left)}"
        slim.findings.append(Finding(OPEN, text, hint="add them to the file of the weights"))
    slim.dtype = wanted = _dtype(dtype)
    slim.hollow = any(own.tensor.is_meta and id(own.tensor) not in found for own in owned)
    new: list[tuple[_Own, Content]] = []
    for own in owned:
        tensor = own.tensor
        content = found.get(id(tensor))
        floats = tensor.is_floating_point() and wanted is not None
        if content is None and (tensor.is_meta or not floats or tensor.dtype == wanted):
            continue
        final = wanted if floats and wanted is not None else tensor.dtype
        new.append((own, cast(content or Held(tensor), tensor.dtype, final)))
    room = BUDGET.bytes.absent_weights
    for own, content in sorted(new, key=lambda pair: _size(pair[1])):
        size = _size(content)
        room -= size
        slim._put(own.tensor, content, absent=size > BUDGET.bytes.absent_weight or room < 0)
    slim._follow(own for own in owned if id(own.tensor) in found)
    return slim


def _on_meta(modules: Iterable[torch.nn.Module]) -> bool:
    return any(
        tensor is not None and tensor.is_meta
        for module in modules
        for kind in ("_parameters", "_buffers")
        for tensor in (vars(module).get(kind) or {}).values()
    )


def emptied(root: torch.nn.Module) -> None:
    """Take the contents of all tensors in a state_dict from a model that is made to be filled."""
    slim = Slim(root)
    for own in _owned(root).values():
        if own.kept and not own.tensor.is_meta:
            slim._stand_in(own.tensor, own.tensor.detach().to("meta"))
    slim._follow(own for own in _owned(root).values() if own.kept)
    placed = slim.placed()
    for _, module in shallow.walk(root):
        placed.swap(vars(module))


def _owned(root: torch.nn.Module) -> dict[int, _Own]:
    """Parameters and buffers, each once, with its names."""
    found: dict[int, _Own] = {}
    # Every path counts, as in a state_dict: a shared module has several.
    for path, module in root.named_modules(remove_duplicate=False):
        hidden = vars(module).get("_non_persistent_buffers_set") or ()
        for name, kind, tensor in shallow.Shallow(module).tensors():
            if kind == "attribute" or is_traceable_wrapper_subclass(tensor):
                continue
            own = found.setdefault(id(tensor), _Own(tensor))
            own.names.append(f"{path}.{name}" if path else name)
            own.kept = own.kept or kind == "parameter" or name not in hidden
    return found


def _fitting(
    owned: Sequence[_Own], path: Path, casting: bool, partly: bool
) -> tuple[dict[int, Content], list[str]]:
    """The contents for each tensor, by its id; all mismatches are reported at once.

    A model that is partly on the meta device has the other part already: the names of those that
    the file lacks come second.
    """
    stored = checkpoint.plain_names(checkpoint.contents(path))
    places = {name: own for own in owned for name in own.names}
    twins: dict[Any, list[_Own]] = {}
    for own in owned:
        twins.setdefault(_memory(own.tensor), []).append(own)
    found: dict[int, Content] = {}
    missing: list[str] = []
    left: list[str] = []
    for own in owned:
        names = [n for twin in (own, *twins[_memory(own.tensor)]) for n in twin.names]
        content = next((stored[name] for name in names if name in stored), None)
        if content is None:
            if own.kept:
                (left if partly and not own.tensor.is_meta else missing).append(own.names[0])
            continue
        found[id(own.tensor)] = content
    shapes, kinds = _mismatches(owned, found, casting)
    extra = [name for name in stored if name not in places]
    told = checkpoint.unlike(missing, extra)
    for odd in (shapes, kinds):
        told += odd[:5] + ([f"and {len(odd) - 5} more"] if len(odd) > 5 else [])
    if told:
        raise UsageError(
            f"{path} does not fit the model",
            why="\n         ".join(told),
            hint="say which dtype is wanted (dtype=, --dtype), or make the model in that of the file"
            if kinds
            else "give the weights that were saved from this model",
        )
    return found, left


def _mismatches(
    owned: Sequence[_Own], found: dict[int, Content], casting: bool
) -> tuple[list[str], list[str]]:
    """Return the tensors that have another shape in the file, and those of another dtype."""
    shapes, kinds = [], []
    for own in owned:
        content = found.get(id(own.tensor))
        if content is None:
            continue
        if content.shape != tuple(own.tensor.shape):
            shapes.append(
                f"{own.names[0]} is {list(content.shape)} in the file and "
                f"{list(own.tensor.shape)} in the model"
            )
        elif content.dtype != own.tensor.dtype and not casting:
            kinds.append(
                f"{own.names[0]} is {dtypes.name(content.dtype)} in the file and "
                f"{dtypes.name(own.tensor.dtype)} in the model"
            )
    return shapes, kinds


def _require_contents(owned: Sequence[_Own], found: dict[int, Content], weights: Any) -> None:
    empty = [own.names[0] for own in owned if own.tensor.is_meta and id(own.tensor) not in found]
    if not empty:
        return
    several = len(empty) > 1
    raise UsageError(
        f"{len(empty)} tensor{'s' if several else ''} of the model {'have' if several else 'has'} "
        f"a shape and no contents: {first_few(empty)}",
        why="they are on the meta device"
        + (", and no state_dict has them" if weights is not None else ""),
        hint="make these on the CPU: they are small buffers, mostly"
        if weights is not None
        else "say where the weights are: weights=, --weights",
    )


def _dtype(given: Any) -> torch.dtype | None:
    name = dtypes.name(given) if isinstance(given, torch.dtype) else given
    if name is None:
        return None
    name = full_name(str(name))
    if name not in DTYPES:
        raise UsageError(
            f"a model cannot be exported in {name!r}", hint=f"dtype is one of {', '.join(DTYPES)}"
        )
    return getattr(torch, name)


class _Placed(Reversible):
    """`with slim.placed():` the stand-ins are in the model; then the user's tensors are again."""

    def __init__(self, slim: Slim) -> None:
        self._slim = slim
        self._token = object()
        self._were: list[shallow.Shallow] = []

    def _set_up(self) -> Slim:
        modules = [module for _, module in shallow.walk(self._slim.root)]
        model_locks.take(self._token, modules)
        for module in modules:
            self._were.append(shallow.Shallow(module))
            self.swap(vars(module))
        return self._slim

    def _undo(self) -> None:
        for was in self._were:
            was.restore()
        self._were.clear()
        model_locks.leave(self._token)

    def swap(self, held: dict[str, Any]) -> None:
        """Replace tensors also in lists: a recurrent layer keeps its weights in one."""
        for key, value in list(held.items()):
            if isinstance(value, torch.Tensor):
                held[key] = self._now(value)
            elif isinstance(value, dict) and key != "_modules":
                for name, item in list(value.items()):
                    if self._now(item) is not item:
                        dict.__setitem__(value, name, self._now(item))
            elif type(value) is list:
                for place, item in enumerate(value):
                    value[place] = self._now(item)

    def _now(self, item: Any) -> Any:
        own, stand_in = self._slim._instead.get(id(item), (None, None))
        return stand_in if own is item and own is not None else item


def _size(content: Content) -> int:
    count = 1
    for n in content.shape:
        count *= n
    return count * content.dtype.itemsize


def _memory(tensor: torch.Tensor) -> Any:
    """Return a key that two tensors share if they are one and the same weight."""
    if tensor.layout is not torch.strided:
        return id(tensor)
    return storage_key(tensor), geometry(tensor), tensor.dtype

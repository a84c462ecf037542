"""The value of each tensor of the recording, and the tensors that share memory.

Tensors are known by identity: an id counts only while the weak reference beside it still answers
with that very object, so ids that Python gives out again never mislead, and no tensor is kept
alive.

Tensors that share a storage form a *family*. Each remembers the steps that lead to it from the
family's root (a slice, a reshape...). When one of them is written to, the root gets the written
elements, and the others are worked out again from the root when somebody next reads them.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ...errors import Unsupported
from ...ir.value import Constant, Value
from ...tensor_bytes import Geometry, geometry, storage_key


class Family:
    """Tensors over one storage, and the value of the whole."""

    __slots__ = ("generation", "geometry", "members", "root", "storage", "unfilled")

    def __init__(self, storage: int, root: Value, shape: Geometry) -> None:
        self.storage = storage
        self.root = root
        self.geometry = shape
        self.generation = 0
        self.unfilled = False  # memory that no recorded call has written to
        self.members: list[Entry] = []

    def alive(self) -> list[Entry]:
        living = [m for m in self.members if m() is not None]
        self.members = living
        return living


class Entry(weakref.ref):
    """The value and the family of one live tensor."""

    __slots__ = ("family", "generation", "key", "path", "value", "version")

    key: int
    value: Value
    family: Family
    path: tuple | None  # steps from the root; None when nobody saw how it came about
    generation: int
    version: int


def _noted(family: Family) -> None:
    """Note that all writes to a memory so far are known; its tensors share the count."""
    for member in family.alive():
        tensor = member()
        if tensor is not None:
            count(member, tensor)


COUNTED_LATER = -2  # the version of an entry: PyTorch has yet to count the write


def count(entry: Entry, tensor: torch.Tensor) -> None:
    """All writes so far are known."""
    entry.version = -1 if tensor.is_inference() else tensor._version


def changed(entry: Entry, tensor: torch.Tensor) -> bool:
    """Return True if a tensor was written to since it was last looked at."""
    if entry.version == COUNTED_LATER:
        count(entry, tensor)
    return entry.version >= 0 and tensor._version != entry.version


class Live:
    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.families: dict[int, Family] = {}
        self.keep: Any = None  # is told of all that is bound, and keeps its contents: `nodes.Kept`
        # Families that were there when the subgraph began that is being recorded: see `higher`.
        self.around: set[Family] | None = None

    def let_go(self) -> None:
        """Break the reference cycles of the rest: no tensor is looked up any more."""
        for family in self.families.values():
            family.members = []
        self.families = {}
        self.entries = {}

    def find(self, tensor: torch.Tensor) -> Entry | None:
        entry = self.entries.get(id(tensor))
        return entry if entry is not None and entry() is tensor else None

    def family_of(self, tensor: torch.Tensor) -> Family | None:
        family = self.families.get(storage_key(tensor))
        return family if family is not None and family.alive() else None

    def bind(
        self,
        tensor: torch.Tensor,
        value: Value,
        parent: Entry | None = None,
        step: Any = None,
        storage: int | None = None,
    ) -> Entry:
        """Bind a tensor to a value; with a parent, as a view that `step` made.

        `storage` is the key of its memory, if the caller has it.
        """
        known = self.entries.get(id(tensor))
        if known is not None and known() is tensor:
            self._gone(known)
        if self.keep is not None:
            self.keep.add(value, tensor)
        entry = self._entry(tensor, value)
        if storage is None:
            storage = storage_key(tensor)
        found = self.families.get(storage)
        if found is not None and (parent is None or parent.family is not found):
            found = found if found.alive() else None
        if found is None:
            found = self.families[storage] = Family(storage, value, geometry(tensor))
            entry.path = ()
        elif parent is not None and parent.family is found and parent.path is not None:
            entry.path = (*parent.path, step)
        else:
            entry.path = None
        entry.family = found
        entry.generation = found.generation
        found.members.append(entry)
        return entry

    def _gone(self, entry: Any) -> None:
        key: int = entry.key
        family: Family = entry.family
        if self.entries.get(key) is entry:
            del self.entries[key]
        # Without the dead in it, the family is freed at once with the constants that it holds.
        if len(family.members) == 1 and family.members[0] is entry:
            family.members = []
        else:
            family.members = [m for m in family.members if m is not entry]
        held = self.families.get(family.storage)
        if held is family and not (held.members and held.alive()):
            del self.families[held.storage]

    def read(self, entry: Entry, again: Callable[[Family, Entry], Value]) -> Value:
        """The value of a live tensor now, worked out again if its memory was written to."""
        family = entry.family
        if entry.generation != family.generation:
            entry.value = again(family, entry)
            entry.generation = family.generation
        return entry.value

    def alias(self, tensor: torch.Tensor, other: Entry) -> None:
        """Make a tensor another name for the memory of `other`: x.data = y."""
        self.leave(tensor)
        family = other.family
        entry = self._entry(tensor, other.value)
        entry.path, entry.family, entry.generation = other.path, family, other.generation
        family.members.append(entry)
        _noted(family)

    def counted_later(self, made: Iterable[tuple[tuple, torch.Tensor]]) -> None:
        """Share the count of a view's base after the handler of the operator that made it has
        returned.
        """
        for _, tensor in made:
            entry = self.find(tensor)
            if entry is not None and len(entry.family.members) > 1:
                entry.version = COUNTED_LATER

    def leave(self, tensor: torch.Tensor) -> None:
        """Unbind a tensor that has changed its meaning; those that shared its memory stay bound."""
        known = self.find(tensor)
        if known is not None:
            self._gone(known)

    def _entry(self, tensor: torch.Tensor, value: Value) -> Entry:
        entry = Entry(tensor, self._gone)
        entry.key = id(tensor)
        entry.value = value
        entry.version = -1 if tensor.is_inference() else tensor._version
        self.entries[entry.key] = entry
        return entry

    def write(
        self,
        entry: Entry,
        value: Value,
        write_back: Callable[[Family, Entry, Value], Value],
    ) -> None:
        """Make a live tensor hold a value, and update those that share its memory."""
        self._writable(entry)
        family = entry.family
        tensor = entry()
        assert tensor is not None
        _noted(family)
        others = [m for m in family.alive() if m is not entry]
        family.unfilled = False
        family.generation += 1
        if not others:
            family.root, family.geometry, entry.path = value, geometry(tensor), ()
        elif entry.path == ():
            family.root = value
        else:
            family.root = write_back(family, entry, value)
        entry.value = value
        entry.generation = family.generation
        if self.keep is not None:
            self.keep.add(value, tensor)

    def _writable(self, entry: Entry) -> None:
        """Raise if a branch or a loop body writes to a tensor from outside."""
        if self.around is not None and entry.family in self.around:
            raise Unsupported(
                "a function that becomes a subgraph writes to a tensor from outside of it",
                why="the body of a branch or loop has no way to change what is around it",
                hint="return the new tensor instead, and carry it through the loop",
            )

    def reform(self, entry: Entry, value: Value, step: Any) -> None:
        """Make a tensor a view of itself: x.t_() moves nothing in memory."""
        entry.value = value
        entry.path = None if step is None or entry.path is None else (*entry.path, step)
        _noted(entry.family)

    def refresh(self, entry: Entry, constant: Callable[[torch.Tensor], Constant]) -> None:
        """Make new constants over a memory that was written with constants."""
        self._writable(entry)
        family = entry.family
        family.unfilled = False
        _noted(family)
        for member in family.alive():
            tensor = member()
            now = member.generation == family.generation
            if tensor is not None and (member.value.fixed or not now):
                member.value = constant(tensor)
                member.generation = family.generation
        whole = next((m for m in family.members if m.path == ()), None)
        tensor = entry()
        assert tensor is not None
        # The root's own tensor may be gone, but its memory is still there.
        family.root = (
            whole.value if whole is not None else constant(tensor.as_strided(*family.geometry))
        )


@dataclasses.dataclass(slots=True)
class PossibleCopy:
    """The two sides of a call that may copy, and its argument's state at that time."""

    source: Entry
    result: Entry
    value: Value
    path: tuple | None
    shape: torch.Size
    stride: tuple[int, ...]
    together: bool  # whether both have the same memory

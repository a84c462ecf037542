"""Plain objects and containers below a model's modules: caches, states, modules in lists.

`shallow` remembers the attributes of a module; this module remembers everything deeper, and the
attributes of tensors: a weight may have its scale as one. It goes by identity as well, and calls no
method of the objects, which may answer anything when asked for a name.
"""

from __future__ import annotations

import itertools
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ...budget import BUDGET
from ...torch_facts import LIBRARIES
from . import shallow
from .iterator_state import Holder, Positions, exchanged, is_iterator
from .remembered_items import (
    CONTAINERS,
    SIMPLE,
    contents,
    filled_slots,
    identical,
    in_python,
    restore_container,
    restore_dict,
)


class Held:
    """One container or object, as it was."""

    __slots__ = ("items", "path", "slots", "state", "thing")
    items: Any  # a tuple of what is in a container, a dict of an object's attributes

    def __init__(self, path: str, thing: Any) -> None:
        self.path, self.thing = path, thing
        self.state: dict[str, Any] | None = None
        self.slots: list[tuple[Any, Any]] = []
        if isinstance(thing, CONTAINERS):
            self.items = contents(thing)
        else:
            self.state = _state(thing)
            self.items = dict(self.state)
            self.slots = filled_slots(thing)

    def inside(self) -> Iterator[tuple[str, Any]]:
        """The parts of an object that may hold something themselves, each with its path."""
        if self.state is not None:
            named = [(f".{name}", x) for name, x in self.items.items() if type(x) not in SIMPLE]
            named += [(f".{slot.__name__}", x) for slot, x in self.slots]
        elif SIMPLE.issuperset(map(type, self.items)):
            return  # as in a vocabulary of a hundred thousand words
        elif isinstance(self.thing, dict):
            half = len(self.items) // 2
            pairs = zip(self.items[:half], self.items[half:], strict=True)
            named = [
                (f"[{name!r}]" if type(name) in SIMPLE else "[...]", x)
                for name, x in pairs
                if type(x) not in SIMPLE
            ]
        else:
            named = [(f"[{n}]", x) for n, x in enumerate(self.items) if type(x) not in SIMPLE]
        yield from ((self.path + name, x) for name, x in named)

    def changed(self) -> list[str]:
        """The names of the parts that have changed."""
        if self.state is None:
            now = contents(self.thing)
            same = len(now) == len(self.items) and identical(now, self.items)
            return [] if same else [self.path]
        state, was = self.state, self.items
        names = {k for k in state.keys() | was if state.get(k, state) is not was.get(k, state)}
        slots, before = (
            {d.__name__: x for d, x in found} for found in (filled_slots(self.thing), self.slots)
        )
        names |= {
            k for k in slots.keys() | before if slots.get(k, state) is not before.get(k, state)
        }
        return [f"{self.path}.{name}" for name in sorted(names)]

    def restore(self) -> None:
        if self.state is not None:
            restore_dict(self.state, self.items)
            for slot, x in self.slots:
                slot.__set__(self.thing, x)
        else:
            restore_container(self.thing, self.items)

    def exchange(self, instead: dict[int, Any]) -> None:
        self.items = exchanged(self.items, instead)
        self.slots = [(slot, instead.get(id(x), x)) for slot, x in self.slots]


class Array:
    """An array of NumPy, with a copy of its contents."""

    __slots__ = ("array", "copy", "path")

    def __init__(self, path: str, array: Any) -> None:
        self.path, self.array, self.copy = path, array, array.copy()

    def changed(self) -> list[str]:
        same = self.array.shape == self.copy.shape and self.array.tobytes() == self.copy.tobytes()
        return [] if same else [self.path]

    def restore(self) -> None:
        if self.array.shape != self.copy.shape:
            self.array.shape = self.copy.shape
        if self.changed():
            self.array[...] = self.copy


class Bare:
    """Tensors that had no attributes, as nearly all of a model's."""

    def __init__(self) -> None:
        self.tensors: list[tuple[str, torch.Tensor]] = []

    def changed(self) -> list[str]:
        return [f"{path}.{name}" for path, tensor in self._filled() for name in _state(tensor)]

    def restore(self) -> None:
        for _, tensor in self._filled():
            if state := _state(tensor):
                dict.clear(state)

    def _filled(self) -> list[tuple[str, torch.Tensor]]:
        """The tensors to look at: usually none of them has attributes now."""
        tensors = (tensor for _, tensor in self.tensors)
        try:
            filled = any(map(object.__getattribute__, tensors, itertools.repeat("__dict__")))
        except AttributeError:
            return self.tensors
        return self.tensors if filled else []


def below(
    things: Iterable[shallow.Thing],
    own: Iterable[tuple[str, torch.Tensor]],
    known: set[int],
    holders: Iterable[Holder] = (),
) -> tuple[list[State], list[tuple[str, torch.Tensor]]]:
    """The containers and objects below modules and their own tensors, and the tensors in them.

    See `search`, which begins with these modules.
    """
    return search(_first(things), own, known, holders)


def search(
    first: Iterable[tuple[str, Any]],
    own: Iterable[tuple[str, torch.Tensor]],
    known: set[int],
    holders: Iterable[Holder] = (),
) -> tuple[list[State], list[tuple[str, torch.Tensor]]]:
    """The containers and objects below named things and tensors, and the tensors in them.

    Objects that are known by their id are left out, with everything below them. `holders` hold what
    it begins with. The last of the states is to be restored first.
    """
    found: list[Held] = []
    tensors: list[tuple[str, torch.Tensor]] = []
    arrays: list[Array] = []
    bare = Bare()
    on_tensors = [Held(*each) for each in own if _is_filled(each, bare)]
    iterators: list[tuple[str, Any]] = []
    waiting = deque(first)
    for one in on_tensors:
        waiting.extend(one.inside())
    while waiting and len(found) + len(tensors) < BUDGET.objects.of_one_holder:
        path, thing = waiting.popleft()
        kind: type = type(thing)
        if kind in SIMPLE or id(thing) in known:
            continue
        if isinstance(thing, tuple):  # nobody can put anything into it
            waiting.extend((f"{path}[{n}]", x) for n, x in enumerate(contents(thing)))
            continue
        known.add(id(thing))
        if _is_array(thing):
            arrays.append(Array(path, thing))
        elif isinstance(thing, torch.Tensor):
            tensors.append((path, thing))
            if _is_filled(tensors[-1], bare):
                on_tensors.append(Held(path, thing))
                waiting.extend(on_tensors[-1].inside())
        elif isinstance(thing, CONTAINERS) or is_of_a_model(kind):
            found.append(Held(path, thing))
            waiting.extend(found[-1].inside())
        elif is_iterator(thing):
            iterators.append((path, thing))
    positions = Positions(iterators, [*holders, *found, *on_tensors])
    return [*found, *on_tensors, *arrays, bare, positions], tensors


State = Held | Array | Bare | Positions


def _is_array(thing: Any) -> bool:
    """Return True for an array of NumPy that is written to as easily as a small buffer."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(thing) is not numpy.ndarray:
        return False
    plain = not thing.dtype.hasobject and thing.flags.writeable
    return plain and thing.nbytes <= BUDGET.bytes.buffers


def _is_filled(named: tuple[str, torch.Tensor], bare: Bare) -> bool:
    """Return True if a tensor has attributes; tensors without are handled together."""
    if _state(named[1]) or filled_slots(named[1]):
        return True
    bare.tensors.append(named)
    return False


def _first(things: Iterable[shallow.Thing]) -> Iterator[tuple[str, Any]]:
    """The containers that modules hold: they are remembered already, their items are not."""
    for path, _, name, thing in things:
        at = f"{path}.{name}" if path else name
        if isinstance(thing, CONTAINERS):
            yield from Held(at, thing).inside()
        else:
            yield at, thing


def is_of_a_model(kind: type) -> bool:
    known = _known.get(kind)
    if known is None:
        known = _known[kind] = _is_of_a_model(kind)
    return known


_known: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def _is_of_a_model(kind: type) -> bool:
    """Return True for a class whose objects a model may own: written in Python by authors of models."""
    if issubclass(kind, torch.nn.Module):
        return not issubclass(kind, torch.jit.ScriptModule)
    if kind is types.SimpleNamespace:
        return True
    plain = in_python(kind) and not issubclass(kind, (type, BaseException))
    return plain and kind.__module__.partition(".")[0] not in LIBRARIES


def _state(thing: Any) -> dict[str, Any]:
    try:
        state = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return state if type(state) is dict else {}

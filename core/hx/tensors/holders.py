"""Whether a tensor was there before the recording: who holds it.

A local variable, or a container that only local variables hold, says nothing. A global, a class,
or an object that the model holds, does. What modules hold directly has its name.

The garbage collector knows the holders of anything, and looks at everything there is to say so. So
one looks first from above, once: at what hangs on the model, and on the globals of its code.
"""

from __future__ import annotations

import gc
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from . import structures
from .liveness import Entry

if TYPE_CHECKING:
    from ..recording.recording import Recording

_PASSES, _WIDTH = 16, 64  # of the search from below
_THINGS, _OF_ONE = 200_000, 5_000  # that are looked at from above, and how many of one holder
_LIBRARIES = ("torch", "builtins", "typing", "abc")


class Holders:
    """The ways to what was found from above.

    They are kept as ids alone, so that nothing lives longer for them. Whoever goes such a way again
    begins at what is there for certain, and meets only what is held now.
    """

    def __init__(self) -> None:
        self._above: dict[int, int] = {}  # id of a thing -> that of its holder
        self._ends: dict[int, Any] = {}  # what tells that all below it was there
        self._near: set[str] = set()  # the modules whose classes are looked into

    def had(self, recording: Recording, tensor: torch.Tensor) -> bool:
        """Whether something holds the tensor that is there outside of this call."""
        frame = recording.frames.user(3)
        if frame is not None and any(v is tensor for v in list(frame.f_globals.values())):
            return True
        if not self._ends:
            ends = _of_model(recording)
            self._look(recording, ends, {x.__module__ for x in ends if isinstance(x, type)})
        if self._holds(recording, tensor):
            return True
        everywhere = _everywhere()
        if frame is not None and id(frame.f_globals) in everywhere - self._ends.keys():
            self._look(recording, [frame.f_globals], {frame.f_globals.get("__name__", "")})
            if self._holds(recording, tensor):
                return True
        way = _from_below(recording, tensor, everywhere)
        if way is not None:
            self._keep(recording, way)
        return way is not None

    def _holds(self, recording: Recording, tensor: torch.Tensor) -> bool:
        """Whether a way that is known leads to it still."""
        way = [id(tensor)]
        while way[-1] not in self._ends:
            if way[-1] not in self._above:
                return False
            way.append(self._above[way[-1]])
        things = [self._ends[way.pop()]]
        while way:
            found = [x for x in gc.get_referents(things[-1]) if id(x) == way[-1]]
            if not found or (len(way) > 1 and _closed(recording, found[0])):
                return False
            things.append(found[0])
            way.pop()
        return id(things[0]) not in recording.states or not _directly(things[1], tensor)

    def _look(self, recording: Recording, ends: list[Any], near: set[str]) -> None:
        self._ends.update((id(end), end) for end in ends)
        self._near |= near
        self._walk(recording, ends)

    def _keep(self, recording: Recording, way: list[Any]) -> None:
        """What was found from below, and what else hangs there: the next one is near, often."""
        self._ends[id(way[0])] = way[0]
        for holder, thing in zip(way, way[1:]):
            if id(thing) not in self._ends:
                self._above[id(thing)] = id(holder)
        self._walk(recording, way[:0:-1])

    def _walk(self, recording: Recording, things: list[Any]) -> None:
        """Notes what hangs on these, the nearest first."""
        everywhere = _everywhere()
        front, left = things, _THINGS
        while front and left > 0:
            following = []
            for holder in front:
                below = gc.get_referents(holder)[: min(left, _OF_ONE)]
                left -= len(below)
                for thing in below:
                    key = id(thing)
                    if key in self._above or key in self._ends or not gc.is_tracked(thing):
                        continue
                    if key in everywhere or _closed(recording, thing) or self._far(thing):
                        continue
                    self._above[key] = id(holder)
                    following.append(thing)
            front = following

    def _far(self, thing: Any) -> bool:
        if isinstance(thing, type):
            return thing.__module__ not in self._near
        return isinstance(thing, types.ModuleType)


def _of_model(recording: Recording) -> list[Any]:
    """What the model has, and its classes, whose functions may have closures and defaults."""
    states = [vars(m) for _, m in recording.modules if id(vars(m)) in recording.states]
    kinds = {kind: None for _, m in recording.modules for kind in type(m).__mro__}
    own = [k for k in kinds if str(k.__module__).partition(".")[0] not in _LIBRARIES]
    return [recording.model, *own, *states]


def _everywhere() -> set[int]:
    """The globals of all modules, by id."""
    return {id(vars(m)) for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)}


def _from_below(
    recording: Recording, tensor: torch.Tensor, everywhere: set[int]
) -> list[Any] | None:
    """The way to the tensor from something that tells that it was there, as the collector says."""
    front: list[Any] = [tensor]
    fronts = [front]
    direct = {id(tensor)}  # what hangs on the tensor by plain containers alone
    seen: set[int] = {id(tensor), id(fronts)}
    for _ in range(_PASSES):
        seen.add(id(front))
        following: list[Any] = []
        for holder in gc.get_referrers(*front):
            if id(holder) in seen or _passing(holder):
                continue
            seen.add(id(holder))
            if id(holder) in everywhere or isinstance(holder, type) or holder is recording.model:
                return _way(holder, fronts)
            held = [x for x in front if isinstance(holder, structures.OF_MANY) and _in(holder, x)]
            if id(holder) in recording.states:
                # The attributes of a module: new ones, or an object with something in it?
                if any(id(x) not in direct for x in held):
                    return _way(holder, fronts)
                continue
            if any(id(x) in direct for x in held):
                direct.add(id(holder))
            following.append(holder)
        if not following:
            return None
        front = following[:_WIDTH]
        fronts.append(front)
    return None


def _way(end: Any, fronts: list[list[Any]]) -> list[Any]:
    """From the end down to the tensor: in each front, something that the one before holds."""
    way = [end]
    for front in reversed(fronts):
        below = set(map(id, gc.get_referents(way[-1])))
        way.append(next((x for x in front if id(x) in below), None))
    return way


def _in(holder: Any, x: Any) -> bool:
    values = holder.values() if isinstance(holder, dict) else holder
    return any(v is x for v in values)


def _directly(thing: Any, tensor: torch.Tensor) -> bool:
    """Whether it is the tensor, or has it by plain containers alone: a module may be new to it."""
    waiting, seen = [thing], set()
    while waiting:
        thing = waiting.pop()
        if thing is tensor:
            return True
        if isinstance(thing, structures.OF_MANY) and id(thing) not in seen:
            seen.add(id(thing))
            waiting += thing.values() if isinstance(thing, dict) else thing
    return False


def _closed(recording: Recording, thing: Any) -> bool:
    """Whether nothing follows from what it holds: a module's attributes are asked by themselves."""
    return id(thing) in recording.states or _passing(thing)


def _passing(holder: Any) -> bool:
    """What lives no longer than the call, and what hx itself keeps."""
    if isinstance(holder, (types.FrameType, types.GeneratorType, types.CoroutineType, Entry)):
        return True
    return type(holder).__module__.startswith("hx.")

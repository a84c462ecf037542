"""A search for the things that hold a tensor: they tell if it existed before the recording.

A local variable, or a container that only local variables hold, proves nothing. A global, a class,
or an object that the model holds, does. Tensors that modules hold directly have names.

The garbage collector knows the holders of anything, but scans all objects to find them. So one walk
comes first, from above: over the objects below the model and the globals of its code.
"""

from __future__ import annotations

import gc
import sys
import types
from typing import Any

import torch

from ...budget import BUDGET
from ...packs import nesting
from ..records import HolderPaths, ModelParts
from .live_tensors import Entry

_LIBRARIES = ("torch", "builtins", "typing", "abc")


def was_held(model: ModelParts, frame: types.FrameType | None, tensor: torch.Tensor) -> bool:
    """Return True if something outside of this call holds the tensor."""
    paths = model.holders
    if frame is not None and any(v is tensor for v in list(frame.f_globals.values())):
        return True
    if not paths.ends:
        ends = _of_model(model)
        _look(model, ends, {x.__module__ for x in ends if isinstance(x, type)})
    if _holds(model, tensor):
        return True
    everywhere = _everywhere()
    if frame is not None and id(frame.f_globals) in everywhere - paths.ends.keys():
        _look(model, [frame.f_globals], {frame.f_globals.get("__name__", "")})
        if _holds(model, tensor):
            return True
    way = _from_below(model, tensor, everywhere)
    if way is not None:
        _keep(model, way)
    return way is not None


def _holds(model: ModelParts, tensor: torch.Tensor) -> bool:
    """Return True if a known path still leads to the tensor."""
    paths = model.holders
    way = [id(tensor)]
    while way[-1] not in paths.ends:
        if way[-1] not in paths.above:
            return False
        way.append(paths.above[way[-1]])
    things = [paths.ends[way.pop()]]
    while way:
        found = [x for x in gc.get_referents(things[-1]) if id(x) == way[-1]]
        if not found or (len(way) > 1 and _closed(model, found[0])):
            return False
        things.append(found[0])
        way.pop()
    return id(things[0]) not in model.attribute_dicts or not _directly(things[1], tensor)


def _look(model: ModelParts, ends: list[Any], near: set[str]) -> None:
    paths = model.holders
    paths.ends.update((id(end), end) for end in ends)
    paths.near |= near
    _walk(model, ends)


def _keep(model: ModelParts, way: list[Any]) -> None:
    """Add a path that was found from below, and its surroundings: the next one is often near."""
    paths = model.holders
    paths.ends[id(way[0])] = way[0]
    for holder, thing in zip(way, way[1:]):
        if id(thing) not in paths.ends:
            paths.above[id(thing)] = id(holder)
    _walk(model, way[:0:-1])


def _walk(model: ModelParts, things: list[Any]) -> None:
    """Note everything below these objects, the nearest first."""
    paths = model.holders
    everywhere = _everywhere()
    front, left = things, BUDGET.objects.holders
    while front and left > 0:
        following = []
        for holder in front:
            below = gc.get_referents(holder)[: min(left, BUDGET.objects.of_one_holder)]
            left -= len(below)
            for thing in below:
                key = id(thing)
                if key in paths.above or key in paths.ends or not gc.is_tracked(thing):
                    continue
                if key in everywhere or _closed(model, thing) or _far(model.holders, thing):
                    continue
                paths.above[key] = id(holder)
                following.append(thing)
        front = following


def _far(paths: HolderPaths, thing: Any) -> bool:
    if isinstance(thing, type):
        return thing.__module__ not in paths.near
    return isinstance(thing, types.ModuleType)


def _of_model(model: ModelParts) -> list[Any]:
    """The model's attributes and its classes, whose functions may have closures and defaults."""
    states = [vars(m) for _, m in model.modules if id(vars(m)) in model.attribute_dicts]
    kinds = {kind: None for _, m in model.modules for kind in type(m).__mro__}
    own = [k for k in kinds if str(k.__module__).partition(".")[0] not in _LIBRARIES]
    return [model.function, *own, *states]


def _everywhere() -> set[int]:
    """The globals of all modules, by id."""
    return {id(vars(m)) for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)}


def _from_below(model: ModelParts, tensor: torch.Tensor, everywhere: set[int]) -> list[Any] | None:
    """Find the path to the tensor from an object that proves it old, by the garbage collector."""
    front: list[Any] = [tensor]
    fronts = [front]
    direct = {id(tensor)}  # the tensor, and plain containers that hold it
    seen: set[int] = {id(tensor), id(fronts)}
    for _ in range(BUDGET.objects.holder_rounds):
        seen.add(id(front))
        following: list[Any] = []
        for holder in gc.get_referrers(*front):
            if id(holder) in seen or _passing(holder):
                continue
            seen.add(id(holder))
            if id(holder) in everywhere or isinstance(holder, type) or holder is model.function:
                return _way(holder, fronts)
            held = [x for x in front if isinstance(holder, nesting.OF_MANY) and _in(holder, x)]
            if id(holder) in model.attribute_dicts:
                # The attributes of a module: new ones, or an object with something in it?
                if any(id(x) not in direct for x in held):
                    return _way(holder, fronts)
                continue
            if any(id(x) in direct for x in held):
                direct.add(id(holder))
            following.append(holder)
        if not following:
            return None
        front = following[: BUDGET.objects.holders_in_a_round]
        fronts.append(front)
    return None


def _way(end: Any, fronts: list[list[Any]]) -> list[Any]:
    """Return the path from the end down to the tensor: each object holds the next one."""
    way = [end]
    for front in reversed(fronts):
        below = set(map(id, gc.get_referents(way[-1])))
        way.append(next((x for x in front if id(x) in below), None))
    return way


def _in(holder: Any, x: Any) -> bool:
    values = holder.values() if isinstance(holder, dict) else holder
    return any(v is x for v in values)


def _directly(thing: Any, tensor: torch.Tensor) -> bool:
    """Return True if a thing is the tensor, or holds it by plain containers alone."""
    waiting, seen = [thing], set()
    while waiting:
        thing = waiting.pop()
        if thing is tensor:
            return True
        if isinstance(thing, nesting.OF_MANY) and id(thing) not in seen:
            seen.add(id(thing))
            waiting += thing.values() if isinstance(thing, dict) else thing
    return False


def _closed(model: ModelParts, thing: Any) -> bool:
    """Return True if nothing follows from what a thing holds: a module's attributes are asked directly."""
    return id(thing) in model.attribute_dicts or _passing(thing)


def _passing(holder: Any) -> bool:
    """Return True for a holder that lives no longer than the call, or that belongs to hx itself."""
    if isinstance(holder, (types.FrameType, types.GeneratorType, types.CoroutineType, Entry)):
        return True
    return type(holder).__module__.startswith("hx.")

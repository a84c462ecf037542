"""Nested arguments and results: walks them, names their leaves, and builds them again.

Lists, tuples, named tuples, dicts, dataclasses, classes registered with PyTorch's pytree, and
plain objects that keep tensors in public attributes (the caches of language models).
"""

from __future__ import annotations

import copy
import dataclasses
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.utils import _pytree as pytree

from ..graph.naming import Names
from . import containers

Children = list[tuple[str, Any]]
Remake = Callable[[list[Any]], Any]  # puts other parts in their place
OF_MANY = (list, tuple, set, frozenset, dict)  # containers, by position or by key
_PLAIN = (int, float, bool, str, bytes, complex, type(None), torch.Tensor)


def children(x: Any) -> tuple[Children, Remake] | None:
    """The named parts of a container and how to put others in their place; None for a leaf."""
    kind = type(x)
    if isinstance(x, _PLAIN):
        return None
    container = containers.of(x)
    if container is not None:
        named, context = container.flatten(x)
        labels = list(named)
        return list(named.items()), lambda vs: container.unflatten(dict(zip(labels, vs)), context)
    if kind in (list, tuple, torch.Size):
        return [(str(i), v) for i, v in enumerate(x)], kind
    if kind is dict:
        keys = list(x)
        return [(str(k), v) for k, v in x.items()], lambda vs: dict(zip(keys, vs))
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return list(zip(x._fields, x)), lambda vs: kind(*vs)
    registered = pytree.SUPPORTED_NODES.get(kind)
    if registered is not None:
        return _registered(x, registered)
    if isinstance(x, dict):
        return _dict_of_its_own(x)
    if isinstance(x, (list, tuple)):
        return [(str(i), v) for i, v in enumerate(x)], kind
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return _dataclass(x)
    return _object(x)


def _registered(x: Any, node: Any) -> tuple[Children, Remake]:
    """The parts of a container that is registered with torch's pytree."""
    values, context = node.flatten_fn(x)
    names = [str(i) for i in range(len(values))]
    if node.flatten_with_keys_fn is not None:
        with_keys, _ = node.flatten_with_keys_fn(x)
        names = [_key(k) for k, _ in with_keys]
    return list(zip(names, values)), lambda vs: node.unflatten_fn(vs, context)


def _dict_of_its_own(x: dict) -> tuple[Children, Remake]:
    """The parts of a dict of a subclass, which is copied."""
    keys = list(x)

    def remake(vs):
        made = copy.copy(x)
        for k, v in zip(keys, vs):
            made[k] = v
        return made

    return [(str(k), v) for k, v in x.items()], remake


def _dataclass(x: Any) -> tuple[Children, Remake]:
    """The parts of a dataclass, which may be frozen."""
    fields = [f.name for f in dataclasses.fields(x) if hasattr(x, f.name)]

    def remake(vs):
        made = copy.copy(x)
        for name, v in zip(fields, vs):
            object.__setattr__(made, name, v)
        return made

    return [(name, getattr(x, name)) for name in fields], remake


_NOT_HOLDERS = (
    torch.nn.Module, numpy.ndarray, type, types.ModuleType, types.FunctionType, types.MethodType,
)  # fmt: skip


def _object(x: Any) -> tuple[Children, Remake] | None:
    """The public attributes of an object that contain tensors."""
    names = [k for k, v in _attributes(x) if _reaches(v, {id(x)})]
    if not names:
        return None

    def rebuild(vs):
        made = copy.copy(x)
        for name, v in vars(x).items():
            if isinstance(v, (list, dict, set)) and name not in names:
                setattr(made, name, own(v))
        for name, v in zip(names, vs):
            setattr(made, name, v)
        return made

    return [(name, getattr(x, name)) for name in names], rebuild


def _attributes(x: Any) -> list[tuple[str, Any]]:
    if isinstance(x, _NOT_HOLDERS) or isinstance(x, _PLAIN):
        return []
    return [(k, v) for k, v in getattr(x, "__dict__", {}).items() if not k.startswith("_")]


def _reaches(x: Any, seen: set[int]) -> bool:
    """Return True if an object holds a tensor, at any depth."""
    if isinstance(x, torch.Tensor):
        return True
    if isinstance(x, _PLAIN) or id(x) in seen:
        return False
    seen.add(id(x))
    if isinstance(x, (list, tuple)):
        return any(_reaches(v, seen) for v in x)
    if isinstance(x, dict):
        return any(_reaches(v, seen) for v in x.values())
    return any(_reaches(v, seen) for _, v in _attributes(x))


def own(leaf: Any) -> Any:
    """Copy something without tensors for a single run: the model may write to it."""
    if isinstance(leaf, _PLAIN) or isinstance(leaf, _NOT_HOLDERS):
        return leaf
    try:
        return copy.deepcopy(leaf)
    except Exception:  # a lock, a file, a generator, each in its own words
        return leaf  # shared, as everywhere else


def _key(k: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(k, attribute):
            return str(getattr(k, attribute))
    return str(k)


def leaves(x: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its flat name: the keys on the way to it, joined by underscores."""
    found = children(x)
    if found is None:
        yield name, x
        return
    for key, value in found[0]:
        yield from leaves(value, f"{name}_{key}" if name else key)


def held(x: Any, name: str, seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Every tensor in an object, with its flat name; those in an unordered set share one."""
    seen = set() if seen is None else seen
    if isinstance(x, torch.Tensor):
        yield name, x
        return
    if id(x) in seen:  # it holds itself, or was looked into on another way
        return
    seen.add(id(x))
    if isinstance(x, (set, frozenset)):
        parts = [(name, each) for each in x]
    else:
        found = children(x)
        parts = [] if found is None else [(f"{name}_{key}", each) for key, each in found[0]]
    for way, part in parts:
        yield from held(part, way, seen)


def replace(x: Any, function: Callable[[str, Any], Any], name: str = "") -> Any:
    """The same structure, with `function(name, leaf)` in place of each leaf."""
    found = children(x)
    if found is None:
        return function(name, x)
    parts, rebuild = found
    return rebuild([replace(v, function, f"{name}_{k}" if name else k) for k, v in parts])


def unique(names: list[str]) -> list[str]:
    """The names with `_1`, `_2`... behind repetitions."""
    taken = Names()
    return [taken.claim(name) for name in names]

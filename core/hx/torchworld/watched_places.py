"""Places to watch, found by name, glob, class, module, function, parameter or tensor."""

from __future__ import annotations

import contextlib
import fnmatch
import types
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import torch_facts
from ..errors import TargetError, UsageError
from ..packs import targets
from ..text import did_you_mean


@dataclass(frozen=True)
class Function:
    """A function to watch: the key that it arrives under, or the Python function to hook."""

    name: str
    key: Hashable
    hooked: types.FunctionType | None = None
    first: Any = None  # for bound methods: what the first argument has to be


@dataclass
class Places:
    """The places that were asked for."""

    model: torch.nn.Module | None = None
    compiled: bool = False  # torch.compile wrapped the model
    modules: dict[str, torch.nn.Module] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def called(self) -> list[str]:
        """Names of the modules and functions."""
        return [*self.modules, *(each.name for each in self.functions)]

    def name_of(self, what: Any) -> str | None:
        """The name of a place, however it is spelled: `"layer4"`, `model.layer4`, `F.relu`."""
        if isinstance(what, str):
            if what in self.modules or self.model is None:
                return what
            # A module that stands at several paths is known by the first.
            same = _paths(self.model).get(what)
            return next((n for n, m in self.modules.items() if m is same), what)
        for name, thing in [*self.modules.items(), *self.parameters.items(), *self.tensors.items()]:
            if thing is what:
                return name
        if callable(what):
            with contextlib.suppress(TargetError):
                wanted = function(what)
                for each in self.functions:
                    if (each.key, each.first) == (wanted.key, wanted.first):
                        return each.name
        return None


def split(what: Iterable[Any]) -> tuple[torch.nn.Module | None, list[Any]]:
    """Separate the model, if it comes first, from the places."""
    listed = list(what)
    if listed and isinstance(listed[0], torch.nn.Module):
        return listed[0], listed[1:]
    return None, listed


def find(
    model: torch.nn.Module | None,
    wanted: Iterable[Any],
    but: Any = (),
    everything: Iterable[Any] = ("*",),
) -> Places:
    """Find the places that `wanted` names, except those of `but`; `everything` by default."""
    inner = getattr(model, "_orig_mod", None)  # what torch.compile wrapped
    compiled = isinstance(inner, torch.nn.Module)
    model = inner if compiled else model
    found = Places(model, compiled)
    listed = list(wanted)
    for each in listed or (everything if model is not None else ()):
        _add(found, each)
    excluded = Places(model)
    for each in but if isinstance(but, (list, tuple, set, frozenset)) else [but]:
        _add(excluded, each)
    gone = {id(m) for m in (*excluded.modules.values(), *excluded.parameters.values())}
    found.modules = {n: m for n, m in found.modules.items() if id(m) not in gone}
    found.parameters = {n: p for n, p in found.parameters.items() if id(p) not in gone}
    keys = {f.key for f in excluded.functions}
    found.functions = [f for f in found.functions if f.key not in keys]
    return found


def _add(found: Places, what: Any) -> None:
    if isinstance(what, (list, tuple, set, frozenset)):
        for each in what:
            _add(found, each)
    elif isinstance(what, str):
        _add_name(found, what)
    elif isinstance(what, type) and issubclass(what, torch.nn.Parameter):
        found.parameters.update(_model(found, what).named_parameters())
    elif isinstance(what, type) and issubclass(what, torch.nn.Module):
        _add_modules(found, ((n, m) for n, m in _modules(found, what) if isinstance(m, what)))
    elif isinstance(what, torch.nn.Module):
        _add_module(found, what)
    elif isinstance(what, torch.Tensor):
        _add_tensor(found, what)
    elif callable(what):
        _add_function(found, function(what))
    else:
        raise UsageError(
            f"{what!r} is no place in a model",
            hint="name a module, a glob, a class, a function such as F.relu, or a tensor",
        )


def _add_name(found: Places, text: str) -> None:
    """A path or glob: of modules; else of parameters; else the dotted name of a function."""
    if found.model is not None:
        paths = _paths(found.model)
        if text in paths:
            return _add_modules(found, [(text, paths[text])])
        matching = [(n, m) for n, m in paths.items() if n and fnmatch.fnmatchcase(n, text)]
        if matching:
            return _add_modules(found, matching)
        named = found.model.named_parameters(remove_duplicate=False)
        parameters = {n: p for n, p in named if fnmatch.fnmatchcase(n, text)}
        if parameters:
            found.parameters.update(parameters)
            return None
    if "." in text or "::" in text:
        with contextlib.suppress(TargetError):
            target = targets.resolve(text)
            if target.kind in ("operator", "torch"):
                return _add_function(found, Function(text, target.key))
            hooked: Any = target.function
            if target.kind == "callable" and hooked is not None:
                return _add_function(found, Function(text, target.key, hooked))
    raise _unknown(found, text)


def _unknown(found: Places, text: str) -> UsageError:
    if found.model is None:
        return UsageError(f"no function is called {text!r}, and no model is given")
    names = [*_paths(found.model), *(n for n, _ in found.model.named_parameters())]
    children = ", ".join(n for n, _ in found.model.named_children())
    return UsageError(
        f"the model has no module {text!r}",
        hint=did_you_mean(text, names, f"it has {children or 'none'}", 3),
    )


def _model(found: Places, what: Any) -> torch.nn.Module:
    if found.model is None:
        raise UsageError(
            f"{getattr(what, '__name__', what)}: of which model?",
            hint="give the model first: hx.record(model, nn.Conv2d)",
        )
    return found.model


def _modules(found: Places, what: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    return _model(found, what).named_modules()


def _paths(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    return dict(model.named_modules(remove_duplicate=False))


def _add_modules(found: Places, several: Iterable[tuple[str, torch.nn.Module]]) -> None:
    there = {id(m) for m in found.modules.values()}
    for name, module in several:
        if id(module) not in there:
            found.modules[name] = module
            there.add(id(module))


def _add_module(found: Places, module: torch.nn.Module) -> None:
    for name, other in _modules(found, module):
        if other is module:
            return _add_modules(found, [(name, module)])
    raise UsageError(f"this {type(module).__name__} is not a part of the model")


def _add_tensor(found: Places, tensor: torch.Tensor) -> None:
    named = found.model.named_parameters() if found.model is not None else ()
    for name, parameter in named:
        if parameter is tensor:
            found.parameters[name] = tensor
            return
    if all(t is not tensor for t in found.tensors.values()):
        found.tensors[f"tensor_{len(found.tensors)}"] = tensor


def _add_function(found: Places, wanted: Function) -> None:
    if all((f.key, f.first) != (wanted.key, wanted.first) for f in found.functions):
        found.functions.append(wanted)


def function(what: Any) -> Function:
    """Return how to see calls of a callable: by PyTorch's protocol, or by a hook in its code."""
    what = getattr(what, "_opoverload", what)  # a torch.library.custom_op
    key = targets.identify(what)
    if isinstance(key, str) or targets.arrives(what):
        return Function(torch_facts.public_name(what, key), key)
    hooked = targets.innermost(what)
    if hooked is None:
        raise TargetError(
            f"calls of {what!r} cannot be seen",
            why="it is neither a Python function nor one of PyTorch's",
            hint="name the Python function that calls it",
        )
    first = what.__self__ if isinstance(what, types.MethodType) else None
    return Function(f"{hooked.__module__}.{hooked.__qualname__}", hooked, hooked, first)

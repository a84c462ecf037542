"""The modules of a model: its own, or those that a plain function reaches.

`hx.export(net.encode, x)` and `hx.export(lambda x: net(x).tanh(), x)` run `net`, so it has to be
in eval mode meanwhile, its weights have names, and it is left as it was.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import torch


class Around(torch.nn.Module):
    """A holder of the modules that a function reaches, under the function's names for them."""


def root_of(model: Any) -> torch.nn.Module:
    """Return one module that contains all modules of the model."""
    if isinstance(model, torch.nn.Module):
        return model
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return owner
    reached: dict[int, tuple[str, torch.nn.Module]] = {}
    for name, module in _reached(model, 0):
        reached.setdefault(id(module), (name, module))
    root = Around()
    for name, module in reached.values():
        root._modules[name] = module
    root.__module__ = getattr(model, "__module__", "")
    return root


def _reached(thing: Any, depth: int) -> Iterator[tuple[str, torch.nn.Module]]:
    for name, value in _held(thing):
        if isinstance(value, torch.nn.Module):
            yield name, value
        elif isinstance(value, (list, tuple, dict)):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in list(items):
                if isinstance(item, torch.nn.Module):
                    yield f"{name}.{key}", item
        elif depth < 2 and isinstance(value, (types.FunctionType, types.MethodType)):
            # A helper beside it; a function of some library reaches nothing that is the user's.
            beside = getattr(value, "__module__", None) == getattr(thing, "__module__", "")
            if beside or isinstance(thing, functools.partial):
                yield from _reached(value, depth + 1)


def _held(thing: Any) -> Iterator[tuple[str, Any]]:
    """The things that a callable refers to, by name."""
    if isinstance(thing, functools.partial):
        yield "func", thing.func
        yield from ((f"args.{i}", a) for i, a in enumerate(thing.args))
        yield from thing.keywords.items()
    elif isinstance(thing, types.MethodType):
        yield "self", thing.__self__
        yield from _held(thing.__func__)
    elif isinstance(thing, types.FunctionType):
        code, cells = thing.__code__, thing.__closure__ or ()
        for name, cell in zip(code.co_freevars, cells):
            try:
                yield name, cell.cell_contents
            except ValueError:  # not filled yet
                continue
        yield from ((n, thing.__globals__[n]) for n in code.co_names if n in thing.__globals__)
    else:
        yield from getattr(thing, "__dict__", {}).items()

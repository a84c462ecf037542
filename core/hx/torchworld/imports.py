"""A guard that hides the replaced builtins from modules that PyTorch imports during a recording.

When PyTorch's compiler is loaded, it notes the builtins and the functions of `math` by identity. It
is loaded when a recorded model first needs it (`torch.cond`, shapes without contents), and from
then on would know the stand-ins of that recording, and no longer `len`.

The recording is told of each import, because it may hook what is in there.
"""

from __future__ import annotations

import importlib.abc
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from . import patching


class Finder(importlib.abc.MetaPathFinder):
    """First in `sys.meta_path` for the time of a recording; finds for its own thread alone."""

    def __init__(self, loaded: Callable[[], None]) -> None:
        self._thread = threading.get_ident()
        self._loading = False
        self._loaded = loaded  # called after each import

    def put(self) -> None:
        note_functions()
        sys.meta_path.insert(0, self)

    def take_back(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        mine = not self._loading and threading.get_ident() == self._thread
        if not mine or not name.startswith("torch."):
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def load(self, loader: Any, module: Any) -> None:
        self._loading = True
        try:
            with patching.bare():
                loader.exec_module(module)
                note_functions()
        finally:
            self._loading = False
        self._loaded()


class _Loader(importlib.abc.Loader):
    """A loader that runs with the original builtins. The module keeps its own loader."""

    def __init__(self, loader: Any, finder: Finder) -> None:
        self._loader, self._finder = loader, finder

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._finder.load(self._loader, module)


def note_functions() -> None:
    """Let PyTorch's compiler, if loaded, note now what it would note when first used."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    kind = getattr(rules, "FunctionIdSet", None)
    tables: Iterable[Any] = [] if kind is None else list(vars(rules).values())
    for table in tables:
        if kind is not None and isinstance(table, kind):
            table()

"""Pristine builtins for the modules of `hx`.

While a model is recorded, `len`, `min`, `max`, `sum` and `range` in the module `builtins` are
replaced by forms that follow sizes. The engine itself needs the ordinary ones. A function takes its
builtins from `globals()["__builtins__"]` when it is made, so an import finder puts a copy there
before a module of `hx` runs. Converter packs keep the replaced builtins: `max(x.shape[0], 1)` in a
converter stays a size.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PRISTINE: dict[str, Any] = dict(vars(builtins))
globals()["__builtins__"] = PRISTINE  # for the functions below, which are made after this line


class PristineFinder:
    """Import finder that gives the modules of one package pristine builtins."""

    def __init__(self, package: str) -> None:
        self.prefix = f"{package}."

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(self.prefix):
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _PristineLoader(spec.loader)
                return spec
        return None


class _PristineLoader:
    """Stand-in for the loader of a module until the module runs."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        vars(module)["__builtins__"] = PRISTINE
        self._loader.exec_module(module)


def install(package: dict[str, Any]) -> None:
    """Give pristine builtins to the modules of a package, and to later functions of its own."""
    others = [f for f in sys.meta_path if type(f).__qualname__ != PristineFinder.__qualname__]
    sys.meta_path[:] = [PristineFinder(package["__name__"]), *others]  # in place of an earlier one
    package["__builtins__"] = PRISTINE

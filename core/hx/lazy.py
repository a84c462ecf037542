"""Modules that are imported at their first use.

Listing converters must not import what they convert, so converter modules write

    from hx.lazy import torch, numpy

and may go on to write `torch.float16` inside a function. Any other library works the same way
(`from hx.lazy import spconv`); for a module inside a package, `lazy("torch.nn.functional")`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any


class LazyModule(ModuleType):
    """Stand-in for a module; the first access to an attribute imports it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):  # read by inspect, copy, doctest
            raise AttributeError(name)
        module = self._module()
        try:
            found = getattr(module, name)
            if type(found).__name__ == "dtype":  # used very often, and always the same object
                vars(self)[name] = found
            return found
        except AttributeError:  # a submodule that nobody has imported yet
            if not hasattr(module, "__path__"):
                raise
            full = f"{self.__name__}.{name}"
            try:
                return importlib.import_module(full)
            except ModuleNotFoundError as missing:
                if missing.name != full:
                    raise
                raise AttributeError(
                    f"module {self.__name__!r} has no attribute {name!r}"
                ) from None

    def _module(self) -> ModuleType:
        known: ModuleType | None = vars(self).get("_known")
        # importlib takes ten times as long to find a module that is imported already.
        if known is None or sys.modules.get(self.__name__) is not known:
            known = vars(self)["_known"] = importlib.import_module(self.__name__)
        return known

    def __dir__(self) -> list[str]:
        return dir(self._module())

    def __repr__(self) -> str:
        return f"<lazy module {self.__name__!r}>"


def lazy(name: str) -> Any:
    """Return a module by its full name, imported at the first use."""
    return LazyModule(name)


if TYPE_CHECKING:
    import numpy
    import onnx
    import onnx_ir
    import torch
else:
    numpy, onnx, onnx_ir, torch = map(lazy, ("numpy", "onnx", "onnx_ir", "torch"))


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return lazy(name)

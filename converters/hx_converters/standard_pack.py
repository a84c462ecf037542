"""Contributions of this pack to hx."""

from __future__ import annotations

import pkgutil

from hx.contributions import ModelSource

from ._model_sources import SOURCES

HX_API = 1

_PACKAGE = __name__.rpartition(".")[0]


def hx_converters() -> list[str]:
    """Dotted names of the subject modules, in a fixed order; private ones are helpers."""
    path = __import__(_PACKAGE).__path__
    names = [module.name for module in pkgutil.iter_modules(path) if not module.ispkg]
    return sorted(
        f"{_PACKAGE}.{n}" for n in names if not n.startswith("_") and n != "standard_pack"
    )


def hx_model_sources() -> list[ModelSource]:
    """Models of torchvision, timm and transformers, where these are installed."""
    return list(SOURCES)

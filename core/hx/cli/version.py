"""`hx --version`: versions for a bug report, read from metadata, so that nothing is imported."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

from hx.cli.output import as_json, facts, say

LIBRARIES = ("torch", "onnx", "onnx-ir", "onnxruntime", "numpy", "pluggy", "typer")


def show(json: bool) -> None:
    from hx import hookspecs
    from hx.packs.installed import classify

    found: dict[str, Any] = {name: _version(name) for name in LIBRARIES}
    packs = classify()
    if json:
        as_json(
            "version",
            hx=_version("hx"),
            api=hookspecs.API,
            python=platform.python_version(),
            platform=platform.platform(),
            libraries=found,
            packs=[pack.to_json() for pack in packs],
        )
        return
    say(f"hx {_version('hx')} (pack API {hookspecs.API})")
    facts(
        [
            ("python", f"{platform.python_version()} at {sys.prefix}"),
            ("platform", platform.platform()),
            *((name, version or "not installed") for name, version in found.items()),
            ("packs", "\n".join(f"{p.key} {p.version} {p.status}" for p in packs) or "none"),
        ]
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

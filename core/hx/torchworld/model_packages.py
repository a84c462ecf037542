"""Models in packages that are otherwise machinery: hx's demo, PyTorch's own examples."""

from __future__ import annotations

from pathlib import Path

_MODULES = ("hx.demo", "torch._export.db.", "torch.testing.")


def is_guest(module: str) -> bool:
    return module.startswith(_MODULES)


def files(hx: Path, torch: Path) -> tuple[str, ...]:
    """The prefixes of the files of such code, in the folders of both."""
    return str(hx / "demo.py"), f"{torch}/_export/db/", f"{torch}/testing/"

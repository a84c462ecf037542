"""`python -m hx.cli.warm_export`: a fork server for `hx export`, started by workers of a batch."""

from __future__ import annotations

import gc
import importlib
import io
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import hx
from hx.batch import fork_server
from hx.batch.files_read import Reading, distributions_by_module
from hx.cli import main as command
from hx.packs import installed

# Modules that exports import at first use. A module missing here only costs time.
LIBRARIES = ("torch", "torch.onnx", "torch.ao.quantization.fx", "onnx", "onnx_ir", "onnxruntime")
COMMAND = ("app", "border", "export", "output", "stopping")
ELSEWHERE = ("batch", "bench", "cli", "demo", "page", "scaffold", "testing", "__main__")


def main() -> None:
    reading = Reading()  # before anything is imported that may change while the server waits
    warm()

    def export(request: dict[str, Any]) -> dict[str, Any]:
        """Run `hx` with these arguments; return its exit code, its JSON, and the files it read."""
        sys.argv = ["hx", *request["words"]]
        sys.stdout = said = io.StringIO()
        code: Any = 0
        try:
            command()
        except SystemExit as end:
            code = end.code
        return {
            "code": code or 0,
            "said": said.getvalue(),
            "read": reading.files(),
            "installed": reading.installed(),
        }

    fork_server.serve(export)


def warm() -> None:
    """Import everything that an export may need, so that forks have it."""
    for name in (*LIBRARIES, *(f"hx.cli.{name}" for name in COMMAND), *_own(hx)):
        importlib.import_module(name)
    installed.classify(only=["hx[standard]"])  # others may be left out by an option
    distributions_by_module()
    gc.collect()
    gc.freeze()  # so that no collection in a child copies these pages


def _own(package: ModuleType) -> Iterator[str]:
    """Return the names of the modules that exports may need, in all folders of hx."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if module.name.removeprefix("hx.") not in ELSEWHERE:
            yield module.name
            if module.ispkg:
                yield from _own(importlib.import_module(module.name))


if __name__ == "__main__":
    main()

"""Jobs and answers: plain data, sent to a worker and back."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from hx.packs import installed

LIBRARIES = ("hx", "torch", "onnx", "onnx-ir", "onnxruntime", "numpy")


@dataclass(frozen=True)
class Job:
    """One request for a worker, with everything that it needs to answer it."""

    number: int
    module: str  # `python -m MODULE` is a fork server that answers requests like this one
    request: Mapping[str, Any]
    folder: str  # where the server runs
    lease: str  # a file: the job may run while it is there, and each start adds a line to it
    software: Mapping[str, str]  # names and versions that the worker has to have
    files: tuple[str, ...] = ()  # that the worker has to see
    limit: float | None = None  # seconds
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """The end of a job. `ended` is empty if the process ended by itself.

    Otherwise: limit (it took too long), withdrawn (the lease is gone), lost (a process was killed),
    unfit (the worker cannot run it). `errors` says why it is lost or unfit.
    """

    host: str
    ended: str = ""
    code: int = 0  # exit code, or the negative number of a signal
    data: Mapping[str, Any] = field(default_factory=dict)
    errors: str = ""  # what the process wrote to stderr
    seconds: float = 0.0


def software() -> dict[str, str]:
    """Names and versions of everything here that an export depends on."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found | {f"pack {pack.key}": pack.version for pack, _ in installed.find()}


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """The first thing that two machines have in different versions; empty if there is none."""
    for name in sorted({*here, *there}, key=lambda name: (name not in here, name)):
        one, other = here.get(name, ""), there.get(name, "")
        if one != other:
            return f"{name} {other or 'is missing'}, and here {one or 'it is missing'}"
    return ""

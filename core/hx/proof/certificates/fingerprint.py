"""Digest of an ONNX file and of the files beside it that hold its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hx.budget import BUDGET
from hx.saving import model_file

Fingerprint = dict[str, Any]


def fingerprint(file: Path) -> Fingerprint:
    """Return sizes and digests of a file and of its external data."""
    beside = {
        place: _digest(path) if (path := file.parent / place).is_file() else None
        for place in model_file.external_files(file)
    }
    return {**_digest(file), "data": beside}


def changes(certified: Fingerprint, file: Path) -> list[str]:
    """Return what differs between a file and the one that was certified, in words."""
    try:
        found = fingerprint(file)
    except (ValueError, IndexError):  # no protobuf message
        found = {**_digest(file), "data": {}}
    told = list(_of_one(file.name, certified, found))
    theirs, ours = certified["data"], found["data"]
    for place in sorted({*theirs, *ours}):
        if place not in theirs:
            told.append(f"it takes weights from {place}, which the certified file does not")
        elif place not in ours:
            told.append(f"it takes no weights from {place}, which the certified file does")
        elif ours[place] is None:
            told.append(f"{place}, which holds its weights, is missing")
        else:
            told += _of_one(place, theirs[place] or {}, ours[place])
    return told


def _of_one(name: str, theirs: Fingerprint, ours: Fingerprint) -> Iterator[str]:
    if ours["bytes"] != theirs.get("bytes"):
        yield f"{name} has {ours['bytes']} bytes, and the certified one {theirs.get('bytes')}"
    elif ours["sha256"] != theirs.get("sha256"):
        yield f"{name} has other bytes than the certified one"


def _digest(path: Path) -> Fingerprint:
    digest, size = hashlib.sha256(), 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(BUDGET.bytes.piece):
            digest.update(piece)
            size += len(piece)
    return {"bytes": size, "sha256": digest.hexdigest()}

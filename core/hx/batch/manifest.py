"""The manifest of a list: what was made from which inputs, so that what is done stays done.

A line of JSON for each model that was made, in a file beside the list; the last line of a model
counts. A line that was cut short, by a full disk or kill -9, is as none: the model is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hx.batch.files_read import Stamp, stamp
from hx.batch.models_list import Entry
from hx.config import standing
from hx.errors import UsageError
from hx.packs import installed


class Manifest:
    """Records of the models of a list that were made."""

    def __init__(self, listed: Path) -> None:
        self.path = listed.absolute().with_name(f".{listed.name}.done")
        self._made: dict[str, dict[str, Any]] = {}
        self._stamps: dict[str, Stamp] = {}  # of inputs, while it is asked what is done
        self._whole = True
        with contextlib.suppress(OSError):
            text = self.path.read_text(encoding="utf-8", errors="replace")
            self._whole = text.endswith("\n") or not text
            for line in text.splitlines():
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    made = json.loads(line)
                    self._made[made["output"]] = made

    def done(self, entry: Entry, made_from: str) -> dict[str, Any] | None:
        """The report of an entry that was made, if it would be made the same way now."""
        made = self._made.get(str(entry.output))
        if made is None or made.get("made_from") != made_from or not made.get("read"):
            return None
        if any(self._stamp(path) != state for path, state in made["read"].items()):
            return None
        report = made.get("report")
        return report if made.get("files") == _files(entry, report) else None

    def _stamp(self, path: str) -> Stamp:
        if path not in self._stamps:
            self._stamps[path] = stamp(path)
        return self._stamps[path]

    def add(
        self, entry: Entry, report: Mapping[str, Any], made_from: str, read: Mapping[str, Stamp]
    ) -> None:
        line = json.dumps(
            {
                "output": str(entry.output),
                "made_from": made_from,
                "read": read,
                "files": _files(entry, report),
                "report": report,
            }
        )
        with contextlib.suppress(OSError):  # then the model is made again next time
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n" if self._whole else f"\n{line}\n")
                self._whole = False
            self._whole = True


def fingerprint(entry: Entry, set_up: str) -> str:
    """A hash of the entry, its weights and inputs, and the set-up that it is made with.

    The other files that a model is made from are only known after it has been made.
    """
    parts: list[Any] = [entry.spec, *entry.words, set_up]
    for path in entry.reads:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        parts += [(each.name, stamp(each)) for each in inside]
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()


def set_up(folder: Path) -> str:
    """Everything that holds for all entries of a list: Python, settings, packs."""
    parts: list[Any] = [sys.executable, sys.version, os.environ.get("PYTHONPATH")]
    with contextlib.suppress(UsageError):  # which the export tells
        parts.append(standing(folder))
    parts += [(pack.key, pack.version, pack.value) for pack, _ in installed.find()]
    return repr(parts)


def _files(entry: Entry, report: Mapping[str, Any] | None) -> list[Stamp]:
    data = (report or {}).get("data_path")
    beside = stamp(entry.output.with_name(Path(data).name)) if data else None
    return [stamp(entry.output), beside]

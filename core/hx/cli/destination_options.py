"""Checks of -o and --report before an export: both can be written, and are none of its inputs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from hx.errors import OutputError
from hx.saving import destinations, model_file


def check_report(path: Path, suffixes: Sequence[str], of: str = "") -> Path:
    """Raise if a report cannot be written there, in a format that the suffix names."""
    if path.suffix.lower() not in suffixes:
        known = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise OutputError(f"--report {path}: {of}a report ends in {known}")
    return check_output(path, "--report")


def default_output(spec: str) -> Path:
    """Return NAME.onnx in the current folder for a SPEC that ends in NAME, if hx may write there."""
    name = re.sub(r"[^\w.-]+", "-", spec.rpartition(":")[2].rstrip("/").rpartition("/")[2])
    path = Path(f"{name.strip('.-') or 'model'}.onnx")
    if path.exists() and not (path.is_file() and model_file.producer(path) == "hx"):
        raise OutputError(
            f"{path} exists, but hx did not write it",
            why="without -o the file has the name of the model",
            hint="name a file, as -o FILE.onnx; -o replaces what is there",
        )
    return check_output(path)


def check_graph(path: Path) -> Path:
    """Raise before the work starts if no graph could be written there."""
    check_output(path)
    if path.suffix.lower() != ".onnx":
        raise OutputError(
            f"-o {path}: the name of an ONNX file ends in .onnx",
            hint=f"write -o {path.with_suffix('.onnx') if path.suffix else f'{path}.onnx'}",
        )
    return path


def check_output(path: Path, option: str = "-o") -> Path:
    """Raise before the work starts if its result could not be written."""
    folder = path.absolute().parent
    problem = destinations.unfit(path) if str(path) != "-" else ""
    if problem:
        shown = ascii(str(path)).strip("'")
        file = "model.onnx" if option == "-o" else "report.html"
        raise OutputError(f"{option} {shown}: {problem}", hint=f"name a file, as {option} {file}")
    if path.is_dir():
        inside = path / ("model.onnx" if option == "-o" else "report.html")
        raise OutputError(f"{option} {path}: that is a folder", hint=f"write {option} {inside}")
    if str(path) == "-":
        raise OutputError(
            f"{option} -: hx writes to a file, not to stdout",
            hint=f"write {option} {'model.onnx' if option == '-o' else 'report.html'}",
        )
    first = next(each for each in (folder, *folder.parents) if each.exists())
    if not first.is_dir():
        raise OutputError(f"{option} {path}: {first} is a file, not a folder")
    if not folder.is_dir():
        raise OutputError(
            f"{option} {path}: there is no folder {folder}", hint=f"mkdir -p {folder}"
        )
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{option} {path}: the folder {folder} cannot be written to")
    return path


def check_apart(
    path: Path, reports: list[Path], spec: str, weights: Path | None, inputs: list[Path]
) -> None:
    sources = [*destinations.of_spec(spec), *destinations.of_weights(weights)]
    sources += [("the file of its inputs", each) for each in inputs]
    destinations.require_apart(f"-o {path}", path, sources)
    for each in reports:
        sources.append(("the graph", path))
        destinations.require_apart(f"--report {each}", each, sources)

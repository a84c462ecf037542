"""Errors for a SPEC that names something else than Python code, and hints for what was meant."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import pickletools
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hx.contributions import ModelSource
from hx.errors import SpecError
from hx.text import with_article
from hx.weights.tensor_files import TORCH

_PROGRAMS = {".pt2": "torch.export.load", ".ts": "torch.jit.load"}
_LIBRARIES = ("torch", "collections", "numpy", "_codecs", "builtins", "__builtin__")


def defined_names(path: Path) -> list[str]:
    """List the public classes, functions and variables of a Python file, without running it."""
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError):
        return []
    names = [each.name for each in body if isinstance(each, (ast.ClassDef, ast.FunctionDef))]
    targets = [target for each in body if isinstance(each, ast.Assign) for target in each.targets]
    names += [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def source_names(source: ModelSource) -> list[str]:
    """List a scheme's models; silently none if its library fails."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(Exception, SystemExit),
    ):
        return list(source.names()) if source.names is not None else []
    return []


def misread(spec: str) -> SpecError | None:
    """Return the error for a SPEC that is an address, or a file of another kind than Python."""
    if "://" in spec:
        _, _, rest = spec.partition("huggingface.co/")
        near = f"did you mean hf:{rest.partition('/tree')[0]}?" if rest else ""
        return SpecError(
            f"{spec!r} is an address, and hx downloads nothing",
            hint=near or "download it, and name the code of the model: file.py:NAME",
        )
    paths = (Path(spec), Path(spec.rpartition(":")[0]))
    found = [path for path in paths if path.is_file() and path.suffix != ".py"]
    return other_kind(found[0]) if found else None


def other_kind(path: Path) -> SpecError | None:
    """Return the error for a file that is no Python file, if its name says what it is."""
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        return SpecError(
            f"{path} is an ONNX file, not the code of a model",
            hint=f"hx view {path} shows it; hx verify {path} SPEC compares it with a model",
        )
    if suffix == ".ipynb":
        return SpecError(
            f"{path} is a notebook; hx runs .py files",
            hint='call hx.export(model, inputs, "m.onnx") in it, or move the model to a .py file',
        )
    load = _PROGRAMS.get(suffix, "")
    if suffix in TORCH and not load:
        records = _names(path)
        load = "torch.jit.load" if "constants.pkl" in records else ""
        load = load or ("torch.load" if _holds_objects(path) else "")
    if load:
        more = ", weights_only=False" if load == "torch.load" else ""
        return SpecError(
            f"{path} holds a saved model; a SPEC names code that loads it",
            hint="in a .py file, write\n"
            f"           def build(): return {load}({str(path)!r}{more}), (example_input,)\n"
            "         and export FILE.py:build",
        )
    if suffix in (*TORCH, ".safetensors"):
        return SpecError(
            f"{path} holds weights, not the code of a model",
            hint=f"name the code, and the weights with -w: hx export FILE.py:NAME -w {path}",
        )
    return None


def _names(path: Path) -> set[str]:
    if not zipfile.is_zipfile(path):
        return set()
    with zipfile.ZipFile(path) as archive:
        return {Path(name).name for name in archive.namelist()}


def _holds_objects(path: Path) -> bool:
    """Return True if a file of torch.save holds objects of classes that no library has."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive, contextlib.suppress(ValueError, StopIteration):
        name = next(each for each in archive.namelist() if Path(each).name == "data.pkl")
        for code, given, _ in pickletools.genops(archive.read(name)):
            if code.name == "GLOBAL" and str(given).partition(" ")[0].split(".")[0] not in (
                _LIBRARIES
            ):
                return True
    return False


def meant_spec(spec: str, sources: Iterable[ModelSource], hint: str) -> str:
    """Return a hint for a SPEC without a colon: a name, or a module without one."""
    near = [f"{path}:{spec}" for path in sorted(Path().glob("*.py")) if spec in defined_names(path)]
    near += [f"{each.scheme}:{spec}" for each in sources if spec in source_names(each)]
    if near:
        return f"did you mean {' or '.join(near[:3])}?"
    with contextlib.suppress(Exception, SystemExit):  # importing a package runs code
        found = importlib.util.find_spec(spec)
        if found is not None and found.origin and (names := defined_names(Path(found.origin))):
            return f"it has {', '.join(names[:8])}: say which, as {spec}:NAME"
    return hint


def not_a_module(spec: str, result: Any, source: str) -> SpecError:
    """Return the error for a SPEC that leads to something else than a module."""
    import torch

    def is_module(thing: Any) -> bool:
        return isinstance(thing, torch.nn.Module)

    is_what = f"is {with_article(result)}"
    hint = "name a module, a class of them, or a function that returns one"
    if result is None:
        hint = "if it names a function: that returns nothing, so let it end with `return model`"
    elif isinstance(result, Mapping) and result:
        modules = [name for name, value in result.items() if is_module(value)]
        if modules:
            hint = f"the module in it is {modules[0]!r}: return that"
        elif all(isinstance(value, torch.Tensor) for value in result.values()):
            hint = "it holds weights: name the model, and give a file of weights with -w"
    elif isinstance(result, (tuple, list)) and result:
        is_what += f" of {' and '.join(type(each).__name__ for each in result[:4])}"
        if any(map(is_module, result)):
            hint = "return a tuple, the module first: (module, inputs)"
        elif all(isinstance(each, torch.Tensor) for each in result):
            hint = "inputs alone are no model: return (module, inputs)"
    return SpecError(
        f"{spec!r} {is_what}, not a torch.nn.Module",
        why=f"{source} gives that" if source else "",
        hint=hint,
    )

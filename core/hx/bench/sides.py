"""Exporters to compare: the floor, hx, and both exporters of torch.onnx with their defaults.

The floor does only what every exporter that runs the model must do: run one forward and write
the weights unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Seconds = dict[str, float]  # the parts of an export, by name


@dataclass
class Subject:
    """Model, and the call of it that every side exports."""

    model: Any
    args: tuple
    kwargs: dict[str, Any]
    dynamic: dict[str, dict[int, str]]  # as given: by input name, axes that may change
    names: dict[int, str]  # id of an input tensor -> its name
    opset: int
    registry: Any


def floor(subject: Subject, path: Path) -> Seconds:
    with torch.no_grad():
        subject.model(*subject.args, **subject.kwargs)
    write_weights(subject.model, path.with_name("weights"))
    return {}


def write_weights(model: Any, path: Path) -> None:
    with path.open("wb") as file:
        for tensor in {t.data_ptr(): t for t in model.state_dict().values()}.values():
            flat = tensor.detach().contiguous().reshape(-1)
            file.write(memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else b"")


def hx(subject: Subject, path: Path, verify: bool = False) -> Seconds:
    from hx.exporter import export

    program = export(
        subject.model,
        subject.args,
        path,
        kwargs=subject.kwargs or None,
        dynamic=subject.dynamic or None,
        opset=subject.opset,
        packs=subject.registry,
        verify=verify,
    )
    return program.report.timings


def torchscript(subject: Subject, path: Path) -> Seconds:
    torch.onnx.export(
        subject.model,
        subject.args,
        str(path),
        kwargs=subject.kwargs or None,
        dynamo=False,
        input_names=list(subject.names.values()),
        dynamic_axes=subject.dynamic or None,
    )
    return {}


def dynamo(subject: Subject, path: Path) -> Seconds:
    torch.onnx.export(
        subject.model,
        subject.args,
        str(path),
        kwargs=subject.kwargs or None,
        dynamo=True,
        dynamic_shapes=_shapes(subject) if subject.dynamic else None,
    )
    return {}


def _shapes(subject: Subject) -> dict[str, Any]:
    """Return the dynamic axes as torch.export takes them: in the structure of the arguments."""
    from torch.utils import _pytree as pytree

    def axes(leaf: Any) -> Any:
        given = subject.dynamic.get(subject.names.get(id(leaf), ""))
        return dict.fromkeys(given, torch.export.Dim.AUTO) if given else None

    bound = inspect.signature(subject.model.forward).bind(*subject.args, **subject.kwargs)
    return {name: pytree.tree_map(axes, value) for name, value in bound.arguments.items()}


SIDES: dict[str, Callable[[Subject, Path], Seconds]] = {
    "floor": floor,
    "hx": hx,
    "dynamo": dynamo,
    "torchscript": torchscript,
}

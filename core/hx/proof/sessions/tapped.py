"""Copies of a file with inner values as further outputs, run without optimisations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hx.budget import BUDGET
from hx.cleanup import run_inside
from hx.saving import model_file
from hx.saving.claims import Hidden

if TYPE_CHECKING:
    import onnx
    import torch

    from .open_file import Run


class Loaded:
    """Cache of the last loaded file, for a next run of the same one, if its weights are few."""

    def __init__(self, path: Path) -> None:
        self._light = sum(map(sum, model_file.weight_sizes(path))) <= BUDGET.bytes.light_weights
        self._last: tuple[Any, Run] | None = None

    def run(
        self, same: Any, load: Callable[[], Run], feeds: Mapping[str, Any]
    ) -> list[torch.Tensor]:
        last, self._last = self._last, None
        run = last[1] if last is not None and last[0] == same else load()
        results = run(feeds)
        if self._light:
            self._last = same, run
        return results


class Tapped:
    """Callable `tapped(names, feeds)` that returns the outputs and these values, by name."""

    def __init__(
        self, path: Path, target: Path, model: onnx.ModelProto, custom_ops: Sequence[Any]
    ) -> None:
        self._path, self._target, self._custom_ops = path, target, custom_ops
        self._model = model
        self._loaded = Loaded(path)

    def __call__(self, names: Sequence[str], feeds: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        listed = [value.name for value in self._model.graph.output]
        more = [name for name in names if name not in listed]

        def load(hidden: Hidden) -> Run:
            from .open_file import loader

            source = self._with(more, hidden.create(self._target).path)
            return loader(source, self._model, self._custom_ops)[1](False)

        results = self._loaded.run(more, lambda: run_inside(Hidden(), load), feeds)
        return dict(zip([*listed, *more], results))

    def _with(self, names: Sequence[str], copy: Path) -> Path:
        """Return a copy of the file that also outputs these values.

        A protobuf message may be written in pieces: appended outputs join those of the graph.
        """
        import shutil

        import onnx

        more = onnx.ModelProto()
        more.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        shutil.copyfile(self._path, copy)
        with copy.open("ab") as file:
            file.write(more.SerializeToString())
        return copy

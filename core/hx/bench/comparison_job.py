"""Subject of a comparison: a SPEC, its inputs and options, as data for other processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hx.inputs.given import Call
    from hx.packs.registry import Registry

RIVALS = ("dynamo", "torchscript")  # those of torch.onnx


@dataclass
class Job:
    spec: str
    inputs: list[str] = field(default_factory=list)
    file: str | None = None
    weights: str | None = None
    dynamic: list[str] = field(default_factory=list)
    seed: int = 0
    opset: int = 20
    use: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    threads: int = 0  # 0: as many as there are cores

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def registry(self) -> Registry:
        from hx.config import parse_uses
        from hx.packs.registry import Registry

        return Registry.installed(
            only=self.only or None, without=self.without, use=parse_uses(self.use)
        )

    def load(self, registry: Registry) -> tuple[Any, Call]:
        """Load the model, ready to be exported, and its call. The seed sets random weights."""
        import torch

        from hx.inputs.given import call_for
        from hx.inputs.spec import load
        from hx.weights.load_weights import load_weights

        torch.manual_seed(self.seed)
        loaded = load(self.spec, registry.sources)
        if self.weights is not None:
            load_weights(loaded.model, Path(self.weights))
        file = None if self.file is None else Path(self.file)
        call = call_for(loaded, self.inputs, file, self.dynamic, self.seed)
        loaded.model.eval()
        return loaded.model, call

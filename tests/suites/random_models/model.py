"""A drawn program, its parameters and its inputs."""

from __future__ import annotations

import dataclasses
import linecache
from typing import Any

import torch

HEAD = (
    "import math\n\nimport torch\nfrom torch import nn\n"
    "from torch._higher_order_ops import while_loop\nfrom torch.nn import functional as F\n\n\n"
)


@dataclasses.dataclass
class Model:
    """A drawn program, and how it is to be exported."""

    inputs: dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype, recorded shape
    dynamic: dict[str, dict[int, str]]
    params: dict[str, tuple[int, ...]]
    lines: list[str]
    outputs: list[str]
    opset: int
    seed: int

    def source(self) -> str:
        setup = [f"self.{n} = table({list(s)})" for n, s in self.params.items()]
        body = [row for line in self.lines for row in line.split("\n")]
        returned = ", ".join(self.outputs) + ("," if len(self.outputs) == 1 else "")
        parts = [f"    def forward(self, {', '.join(self.inputs)}):"]
        parts += [f"        {row}" for row in body] + [f"        return {returned}"]
        if setup:
            head = ["    def __init__(self):", "        super().__init__()"]
            parts = head + [f"        {row}" for row in setup] + [""] + parts
        return "\n".join(["class Drawn(nn.Module):", *parts, ""])

    def made(self) -> torch.nn.Module:
        name = f"<drawn {self.seed}>"
        text = HEAD + self.source()
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        space: dict[str, Any] = {"table": table, "__name__": "drawn"}
        exec(compile(text, name, "exec"), space)
        return space["Drawn"]().eval()

    def sizes(self) -> dict[str, int]:
        found = {}
        for name, axes in self.dynamic.items():
            for axis, word in axes.items():
                found[word] = self.inputs[name][1][axis]
        return found

    def tensors(self, sizes: dict[str, int], seed: int) -> dict[str, torch.Tensor]:
        made = {}
        for place, (name, (dtype, shape)) in enumerate(self.inputs.items()):
            words = self.dynamic.get(name, {})
            real = [sizes[words[i]] if i in words else n for i, n in enumerate(shape)]
            made[name] = drawn(dtype, real, 1000 * self.seed + 10 * seed + place)
        return made

    def __str__(self) -> str:
        return (
            f"# seed {self.seed}, opset {self.opset}, inputs {self.inputs}, "
            f"dynamic {self.dynamic}\n{self.source()}"
        )


def drawn(dtype: str, shape, seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    if dtype == "bool":
        return torch.rand(tuple(shape), generator=rng) < 0.5
    if "int" in dtype:
        return torch.randint(0 if dtype == "uint8" else -4, 8, tuple(shape), generator=rng).to(
            getattr(torch, dtype)
        )
    return torch.randn(tuple(shape), generator=rng).to(getattr(torch, dtype))


def table(shape) -> torch.nn.Parameter:
    rng = torch.Generator().manual_seed(sum(n * 31**i for i, n in enumerate(shape)))
    return torch.nn.Parameter(torch.randn(tuple(shape), generator=rng) * 0.5)

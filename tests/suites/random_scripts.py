"""Functions of TorchScript drawn by chance: what decides their branches and loops, and what these give.

    python -m tests.suites.random_scripts --seed 0 --count 150
    python -m tests.suites.random_scripts --plain          # the same, run by Python

Each is exported with a size that may change, and its file compared with the function at seven sizes
and four scales. What the export refuses is counted, and so is what left the graph and was told; a
file that is wrong otherwise ends the run with 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import hx

SIZES, SCALES = (4, 1, 2, 3, 5, 7, 8), (1.0, -1.0, 0.1, 5.0)
_STEPS = """x = x * 0.5; x = x + n; x = x - s; x = x.abs(); x = x * s; x = x + x.mean()
x = torch.relu(x) - 0.1; x = x + y; y = x * 2; y = y - n; x, y = y, x; n = n + 1; n = n * 2 - 1
n = n + x.size(0); n = min(n, 5); s = s * 0.7; s = s + 0.25; s = max(s, 0.1); b = not b
b = bool(x.sum() > 0); b = n > 2""".replace("\n", "; ").split("; ")
_QUESTIONS = """x.sum() > {c}; bool(x.mean() > {c}); float(x.max()) > {c}; x.size(0) > {k}; n > {k}; b
not b; s > {c}; bool(x.sum() > {c}) and n < {k}; x.size(0) > {k} or bool(x[0] > {c})
bool(x.min() < {c}) or b; n % 2 == 0; x.size(0) % 2 == 0""".replace("\n", "; ").split("; ")
_RETURNS = "return x, y, n, s, b"


class Drawn:
    """The source of one function: two tensors, a whole number, a float and a truth value."""

    def __init__(self, seed: int) -> None:
        self._chance, self._counters = random.Random(seed), 0
        start = ["n = 1", "s = 0.5", "b = True", "y = x + 1"]
        body = [f"    {line}" for line in [*start, *self._block(3), _RETURNS]]
        self.source = "\n".join(["import torch", "def f(x: torch.Tensor):", *body, ""])

    def _question(self) -> str:
        c, k = self._chance.choice(["0.0", "0.5", "-1.0", "2.0"]), self._chance.randint(1, 4)
        return self._chance.choice(_QUESTIONS).format(c=c, k=k)

    def _block(self, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self._chance.randint(1, 3)):
            kind = self._chance.random() if depth else 0.0
            if kind < 0.6:
                lines.append(self._chance.choice(_STEPS))
            elif kind < 0.8:
                lines += self._branch(depth)
            else:
                lines += self._for(depth) if kind < 0.9 else self._while(depth)
        return lines

    def _branch(self, depth: int) -> list[str]:
        lines = [f"if {self._question()}:", *_inner(self._block(depth - 1))]
        if self._chance.random() < 0.6:
            lines += ["else:", *_inner(self._block(depth - 1))]
        if self._chance.random() < 0.1:
            lines += [f"if {self._question()}:", *_inner([_RETURNS])]
        return lines

    def _for(self, depth: int) -> list[str]:
        times = self._chance.choice(["2", "3", "x.size(0)", "n", "x.size(0) - 1"])
        body = self._block(depth - 1)
        if self._chance.random() < 0.3:
            body += [f"if {self._question()}:", *_inner(["break"])]
        return [f"for i in range({times}):", *_inner(body)]

    def _while(self, depth: int) -> list[str]:
        self._counters += 1
        w, most = f"w{self._counters}", self._chance.choice([3, 5])
        more = self._chance.choice(["bool(x.abs().sum() > 0.5)", "n < 6"])
        body = [*self._block(depth - 1), f"{w} = {w} + 1"]
        return [f"{w} = 0", f"while {w} < {most} and {more}:", *_inner(body)]


def _inner(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def scripted(seed: int, folder: Path) -> Any:
    """The function of a seed; TorchScript reads its source from a file."""
    return torch.jit.script(plain(seed, folder))


def plain(seed: int, folder: Path) -> Any:
    path = folder / f"drawn_{seed}.py"
    path.write_text(Drawn(seed).source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def outcome(function: Any, seed: int) -> str:
    """What comes of an export: right, refused, told, or where it is wrong."""
    torch.manual_seed(seed)
    try:
        program = hx.export(function, torch.randn(4), None, dynamic={"x": {0: "t"}})
    except hx.HxError:
        return "refused"
    return compared(program, function)


def compared(program: hx.Program, function: Any) -> str:
    for size in SIZES:
        for scale in SCALES:
            x = torch.randn(size) * scale
            try:
                want, got = function(x), program.run(x)
            except hx.UsageError:
                continue  # not promised
            for a, b in zip(got, want, strict=True):
                a, b = (torch.as_tensor(v).double() for v in (a, b))
                if a.shape != b.shape or not torch.allclose(a, b, 1e-3, 1e-4, equal_nan=True):
                    told = any(not escape.carried for escape in program.report.escapes)
                    return "told" if told else f"wrong at t={size}, {scale}"
    return "right"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--plain", action="store_true")
    asked = parser.parse_args()
    made = plain if asked.plain else scripted
    warnings.filterwarnings("ignore")
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(asked.seed, asked.seed + asked.count):
            what = outcome(made(seed, Path(folder)), seed)
            found[what.partition(" ")[0]] += 1
            if what.startswith("wrong"):
                print(f"--- seed {seed}: {what}\n{Drawn(seed).source}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in found.most_common()))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

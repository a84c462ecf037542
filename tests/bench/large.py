"""Weights that do not fit into memory, and how fast files are written.

    python tests/bench/large.py                  # 12 GB of weights under a limit of 3 GB
    python tests/bench/large.py --dtype float16  # cast on the way
    python tests/bench/large.py --limit 0        # as the machine allows, proof and all
    python tests/bench/large.py --write          # a file written raw, with data beside it, inline

The shards are made on the spot, and removed afterwards; twice their size has to be free on the
disk. The limit is set by `resource` on all that a process of its own may map (RLIMIT_AS), before it
imports anything. Beside the export stands the time that copying the shards takes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEP = 16 << 20
SHARD = 2 << 30


def build():
    """A language model in float32: fourteen layers, 11.9 GB."""
    return model(4096, 11008, int(os.environ.get("LAYERS", "14"))), {"ids": ids()}


def ids():
    import torch

    return torch.arange(16)[None] % 32000


def model(width, inner, depth, words=32000):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
            self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in "qkvo")
            self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in "gu")
            self.down = nn.Linear(inner, width, bias=False)

        def forward(self, x, cos, sin):
            y = self.before(x)
            q, k, v = (
                each(y).unflatten(-1, (-1, 128)).transpose(1, 2)
                for each in (self.q, self.k, self.v)
            )
            q, k = (t * cos + torch.cat([-t[..., 64:], t[..., :64]], -1) * sin for t in (q, k))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).flatten(2))
            y = self.between(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.layers = nn.ModuleList([Layer() for _ in range(depth)])
            self.norm = nn.RMSNorm(width)
            self.head = nn.Linear(width, words, bias=False)
            self.head.weight = self.embed.weight
            frequencies = 1 / 10000 ** (torch.arange(0, 128, 2) / 128)
            self.register_buffer("frequencies", frequencies, persistent=False)

        def forward(self, ids):
            x = self.embed(ids)
            angles = torch.arange(ids.shape[1], device=ids.device)[:, None] * self.frequencies
            cos, sin = (torch.cat([t, t], -1).to(x) for t in (angles.cos(), angles.sin()))
            for layer in self.layers:
                x = layer(x, cos, sin)
            return self.head(self.norm(x))

    return Language()


# Shards.


def make_shards(folder: Path) -> int:
    """What transformers would have saved: normal numbers, small enough for many layers."""
    import numpy as np

    from hx.inputs.meta_models import hollow

    with hollow():
        state = build()[0].state_dict()
    del state["head.weight"]
    shards: list[dict] = [{}]
    for name, tensor in state.items():
        if sum(t.numel() * 4 for t in shards[-1].values()) + tensor.numel() * 4 > SHARD:
            shards.append({})
        shards[-1][name] = tensor
    rng, where = np.random.default_rng(0), {}
    block = rng.standard_normal(STEP // 4, dtype=np.float32) * 0.02
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        where.update(dict.fromkeys(shard, name))
        header, at = {}, 0
        for key, tensor in shard.items():
            size = tensor.numel() * 4
            header[key] = {
                "dtype": "F32",
                "shape": list(tensor.shape),
                "data_offsets": [at, at + size],
            }
            at += size
        text = json.dumps(header).encode()
        with (folder / name).open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for tensor in shard.values():
                left = tensor.numel()
                while left:  # another place in the block each time, so that tensors differ
                    start = int(rng.integers(0, block.size // 2))
                    part = block[start : start + min(left, block.size // 2)]
                    file.write(part)
                    left -= len(part)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def copied(folder: Path, to: Path) -> float:
    """Seconds that reading the shards and writing their bytes to one file takes."""
    os.sync()
    start = time.perf_counter()
    buffer = memoryview(bytearray(STEP))
    with to.open("wb", buffering=0) as out:
        for path in sorted(folder.glob("*.safetensors")):
            with path.open("rb", buffering=0) as file:
                while count := file.readinto(buffer):
                    out.write(buffer[:count])
    took = time.perf_counter() - start
    to.unlink()
    return took


# The export, in a process of its own.


def export(folder: Path, to: Path, dtype: str | None, limit: float) -> dict:
    words = [sys.executable, __file__, "--export", str(folder), str(to), "--limit", str(limit)]
    words += ["--dtype", dtype] if dtype else []
    os.sync()
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def exporting(folder: str, to: str, dtype: str | None, limit: float) -> None:
    if limit:
        resource.setrlimit(resource.RLIMIT_AS, (int(limit * 1e9),) * 2)
    import hx
    from hx.inputs.meta_models import hollow

    with hollow():
        made, kwargs = build()
    dynamic = {"ids": {0: "batch", 1: "length"}}
    # Directly before it, so that both have the same memory: a virtual machine may have to get it
    # from its host, which takes longer than the copying.
    copies = [copied(Path(folder), Path(f"{to}.copy")) for _ in range(2)]
    start = time.perf_counter()
    program = hx.export(
        made,
        kwargs=kwargs,
        path=to,
        weights=folder,
        dtype=dtype,
        dynamic=dynamic,
        external_data=True,
    )
    took = time.perf_counter() - start
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    print(
        json.dumps(
            {
                "copies": copies,
                "seconds": took,
                "timings": program.report.timings,
                "bytes": program.report.size,
                "nodes": program.report.nodes,
                "resident": int(status["VmHWM"].split()[0]) * 1024,
                "mapped": int(status["VmPeak"].split()[0]) * 1024,
                "proof": program.proof.summary(),
                "same": None if dtype else same(folder, program.report),
            }
        )
    )


def same(folder: str, report) -> bool:
    """Whether every weight in the data file is, byte by byte, that of the shards."""
    import onnx

    from hx.weights.checkpoint import contents

    stored = contents(Path(folder))
    data = Path(report.path).with_name(Path(report.data_path).name)
    found = 0
    with data.open("rb") as file:
        for tensor in onnx.load(report.path, load_external_data=False).graph.initializer:
            said = {each.key: each.value for each in tensor.external_data}
            if tensor.name not in stored or not said:
                continue
            found += 1
            file.seek(int(said["offset"]))
            if any(file.read(len(chunk)) != chunk for chunk in stored[tensor.name].chunks()):
                return False
    return found == len(stored)


def under_a_limit(limit: float, dtype: str | None, folder: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        shards, to = Path(place, "shards"), Path(place, "model.onnx")
        shards.mkdir()
        size = make_shards(shards)
        print(f"{size / 1e9:.1f} GB of weights in {len(list(shards.glob('*.safetensors')))} shards")
        found = export(shards, to, dtype, limit)
    copies = found["copies"]
    times = ", ".join(f"{k} {v:.2f}" for k, v in found["timings"].items())
    print(f"copying the shards, twice before it   {copies[0]:.1f} s, {copies[1]:.1f} s")
    print(f"export                                {found['seconds']:.1f} s ({times})")
    print(f"written                               {found['bytes'] / 1e9:.2f} GB")
    print(f"limit                                 {limit or 'no'} GB")
    print(f"most that was mapped                  {found['mapped'] / 1e9:.2f} GB")
    print(f"most that was resident                {found['resident'] / 1e9:.2f} GB")
    print(f"every weight is that of the shards    {found['same']}")
    print(f"proof                                 {found['proof']}")


# How fast files are written.


def writing(repeat: int, folder: str | None) -> None:
    import torch

    import hx
    from hx.saving import save

    made = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096, bias=False) for _ in range(12)])
    program = hx.export(made.eval(), torch.randn(1, 4096), verify=False)
    tensors = [p.detach().numpy() for p in made.parameters()]
    size = sum(t.nbytes for t in tensors)

    def raw(path):
        with path.open("wb") as file:
            for tensor in tensors:
                file.write(memoryview(tensor).cast("B"))

    sides = {
        "raw": raw,
        "external": lambda path: save.save(program.model, path, external=True),
        "inline": lambda path: save.save(program.model, path, external=False),
    }
    found: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(repeat + 1):
        for side, write in sides.items():
            with tempfile.TemporaryDirectory(dir=folder) as place:
                os.sync()
                start = time.perf_counter()
                write(Path(place, "m.onnx"))
                if turn:
                    found[side].append(time.perf_counter() - start)
    print(f"{size / 1e6:.0f} MB, medians of {repeat}")
    for side, seconds in found.items():
        took = statistics.median(seconds)
        print(f"{side:10} {took:6.2f} s  {size / took / 1e9:5.2f} GB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=3.0, help="GB that may be mapped; 0: all")
    parser.add_argument("--dtype")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", help="where there is room")
    parser.add_argument("--export", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.export:
        exporting(*given.export, given.dtype, given.limit)
    elif given.write:
        writing(given.repeat, given.folder)
    else:
        needed = 2.2 * 12e9
        free = shutil.disk_usage(given.folder or tempfile.gettempdir()).free
        if free < needed:
            raise SystemExit(f"{needed / 1e9:.0f} GB of disk are needed, {free / 1e9:.0f} are free")
        under_a_limit(given.limit, given.dtype, given.folder)


if __name__ == "__main__":
    main()

"""Tensors come and go by the thousand: none is mistaken for another, and none is kept alive."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import torch
from called import Single


def test_ids_of_the_dead_never_mislead(proved):
    def long(x):
        total = torch.zeros(3)
        for i in range(300):
            part = (x * i).sin()
            view = part[0]
            view += 1
            total = total + part.sum(0) * 0.01
            del part, view
            scratch = torch.full((3,), float(i))
            scratch += 1
            total = total + scratch
        return total

    program = proved(Single(long), torch.randn(2, 3), dynamic={"x": {0: "b"}}, sizes=[{"b": 3}])
    assert program.report.nodes > 1000


def peak(script):
    """The most memory that a process of its own held, in MiB."""
    code = textwrap.dedent(script)
    # Otherwise glibc keeps big blocks that were freed, when small ones came to lie between them.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True,
        env=environment,
    )  # fmt: skip
    return float(out.stdout.split()[-1])


DEEP = """
    import torch, hx
    from torch import nn
    from hx.bench.memory import peak

    class Deep(nn.Module):
        def forward(self, x):
            for i in range({layers}):
                x = torch.tanh(x * 1.01)
                x[:, 0] = i
                mask = torch.ones(1024, 2048).tril() * i
                x = x + mask[:1, :1]
                x.view(-1).add_(1)
            return x.sum()

    x = torch.randn(1024, 2048)
    Deep()(x.clone())
    print(peak(lambda: hx.export(Deep(), x, verify=False)) / (1 << 20))
"""


def test_memory_does_not_grow_with_the_layers():
    few, many = peak(DEEP.format(layers=5)), peak(DEEP.format(layers=60))
    # Each layer makes four tensors of 8 MiB.
    assert many - few < 40, (few, many)

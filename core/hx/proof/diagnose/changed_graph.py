"""Reasons outside the graph as recorded: another run of the model, and passes that changed the graph."""

from __future__ import annotations

import torch

from ...packs import passes
from ...torchworld.state import shallow
from ..differences.compare import differ
from .rejected import Rejected


def found_otherwise(rejected: Rejected) -> list[str]:
    """Return a note if the model's results on the recorded inputs differ from the recording."""
    subject, proof = rejected.subject, rejected.proof
    hollow = subject.recipe.request.weights.hollow
    if hollow or not proof.cases or not proof.cases[0].ok:
        return []
    asked, again = subject.runner.twice(dict(subject.recipe.inputs))
    if len({len(asked), len(again), len(subject.results)}) > 1:
        return []  # it omits a result when traced, and is recorded once more
    if not differ(asked, subject.results, proof.depth) or differ(asked, again, proof.depth):
        return []
    fused = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer)
    modules = shallow.walk(subject.recipe.call.root)
    attends = any(isinstance(module, fused) for _, module in modules)
    why = (
        ": there it takes PyTorch's fast path of attention, which passes by what is put around its "
        "layers; torch.backends.mha.set_fastpath_enabled(False) turns that off"
    )
    return [
        "on the recorded inputs as well, the model gives something else when it is not recorded"
        f"{why if attends and torch.backends.mha.get_fastpath_enabled() else ''}"
    ]


def passes_of_packs(rejected: Rejected) -> list[str]:
    """List the graph passes that changed the graph, and the options that leave them out."""
    registry, rewrote = rejected.subject.recorder.registry, rejected.rewrote
    if not rewrote:
        return []
    names = ", ".join(f"{each.name} ({each.pack})" for each in rewrote)
    options = [passes.left_out(registry, each) for each in rewrote]
    without = " ".join(filter(None, dict.fromkeys(options)))
    line = f"graph passes of packs changed the graph before it was run: {names}"
    return [f"{line}; to see it without: {without}" if without else line]

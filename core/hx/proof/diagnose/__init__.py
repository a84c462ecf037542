"""Reasons why a file does not compute what the model computes.

Each diagnosis takes the rejected file and returns lines for the message, or none if it does not
apply. `DIAGNOSES` is their order in the message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..differences.nodes import NodeTable
from . import changed_graph, faulty_nodes, lost_values, size_limits
from .rejected import Rejected

__all__ = ["Diagnosis", "Rejected", "diagnose"]

DIAGNOSES: tuple[Callable[[Rejected], list[str]], ...] = (
    changed_graph.found_otherwise,
    changed_graph.passes_of_packs,
    faulty_nodes.named_by_the_proof,
    faulty_nodes.wrong_constants,
    faulty_nodes.first_off,
    lost_values.left_the_graph,
    size_limits.limits_that_help,
    lost_values.target_to_convert,
    lost_values.compiled_code,
)


@dataclass(frozen=True)
class Diagnosis:
    """Lines of the message, and the details of the first wrong node."""

    lines: list[str]
    baked: list[str]
    node_table: NodeTable | None


def diagnose(rejected: Rejected) -> Diagnosis:
    lines = [line for diagnosis in DIAGNOSES for line in diagnosis(rejected)]
    found = rejected.difference
    return Diagnosis(lines, found.baked, found.table)

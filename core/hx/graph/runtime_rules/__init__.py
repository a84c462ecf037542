"""Rules for faults of onnxruntime: nodes that it computes wrongly get another form.

A rule is an entry in the RULES of one of these files: the operators that it rewrites, the fault,
the version of onnxruntime without it, and a function from a node to the nodes that replace it. All
rules are applied in one walk over the graph. A new rule needs an entry in one file, and a test in
`tests/graph/test_runtime_rules.py` that shows the fault.
"""

from __future__ import annotations

from ...ir.value import Node
from . import float64_scaling, integer_division, range_gather, resize_layout, transposed_products
from .rule import Rule, rewritten

RULES: tuple[Rule, ...] = (
    *float64_scaling.RULES,
    *transposed_products.RULES,
    *range_gather.RULES,
    *resize_layout.RULES,
    *integer_division.RULES,
)


def apply(nodes: list[Node], rules: tuple[Rule, ...] | None = None) -> list[Node]:
    """The nodes in forms that onnxruntime computes right."""
    return rewritten(nodes, RULES if rules is None else rules)

"""What a program holds, by name."""

from __future__ import annotations


def inputs(program):
    return [v.name for v in program.model.graph.inputs]


def outputs(program):
    return [v.name for v in program.model.graph.outputs]


def ops(program):
    return [n.op_type for n in program.model.graph]


def initializers(program):
    return {k: v.const_value for k, v in program.model.graph.initializers.items()}

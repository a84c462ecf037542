"""Exports of functions, with converters of the test's own: for the tests of the engine."""

from __future__ import annotations

from torch import nn

import hx
from hx import converter
from hx.packs.registry import Registry


class Call(nn.Module):
    """A function of a module that has these parts, so that the converters of its calls are asked."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


class Whole(Call):
    """The same of a function of whatever it is called with, without the module."""

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


class Plain(nn.Module):
    """A function of tensors, as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *xs):
        return self.function(*xs)


class Single(nn.Module):
    """A function of one tensor, `x`, as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def asked(model, args, *converters, alone=False, registry=None, **options):
    """Exports with these converters before the installed ones; the program, and its operators."""
    registry = Registry() if alone else registry or Registry.installed()
    for one in converters:
        registry.add(one)
    program = hx.export(model, args, packs=registry, **options)
    program.ops = [node.op_type for node in program.model.graph]
    return program


def speaks(target, body, **options):
    """A converter that writes down each time it is asked."""

    def convert(op, *args, **kwargs):
        convert.calls += 1
        return body(op, *args, **kwargs)

    convert.calls = 0
    return converter(target, **options)(convert)

"""Exports with one more converter, and the names of the cases of a proof."""

import hx


def with_converter(converter):
    packs = hx.Registry(hx.Registry.standing().packs)
    packs.add(converter)
    return packs


def names_of(program):
    return [case.name for case in program.proof.cases]

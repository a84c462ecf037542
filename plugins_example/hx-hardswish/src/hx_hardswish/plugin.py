"""Hooks of this pack, which hx calls."""

HX_API = 1


def hx_converters():
    return ["hx_hardswish.converters"]

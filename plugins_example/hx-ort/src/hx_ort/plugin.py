"""Hooks of this pack, which hx calls."""

HX_API = 1


def hx_converters():
    return ["hx_ort.converters", "hx_ort.language"]

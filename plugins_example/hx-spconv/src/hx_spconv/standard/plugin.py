"""What the pack `spconv` gives to hx."""

from hx_spconv.container import CONTAINER

HX_API = 1


def hx_converters():
    return ["hx_spconv.standard.converters"]


def hx_containers():
    return [CONTAINER]

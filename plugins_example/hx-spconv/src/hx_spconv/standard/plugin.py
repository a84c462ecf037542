"""What the pack `spconv` gives to hx."""

from hx import ModelSource
from hx_spconv import models
from hx_spconv.container import CONTAINER

HX_API = 1


def hx_converters():
    return ["hx_spconv.standard.converters"]


def hx_model_sources():
    return [ModelSource("spconv", models.load, "spconv:centerpoint", models.names)]


def hx_containers():
    return [CONTAINER]

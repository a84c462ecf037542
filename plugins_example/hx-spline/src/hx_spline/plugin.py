"""Hooks of this pack, which hx calls."""

from hx import Container, GraphPass, ModelSource, ReferenceKernel
from hx_spline import kernels, masked, models

HX_API = 1


def hx_converters():
    return ["hx_spline.converters"]


def hx_model_sources():
    return [ModelSource("acme", models.load, "acme:regressor", models.names)]


def hx_containers():
    return [Container("acme_nn.Masked", masked.flatten, masked.unflatten)]


def hx_reference_kernels():
    return [ReferenceKernel("com.acme", "Spline", kernels.spline)]


def hx_passes():
    return [GraphPass("acme-runtime", needs_runtime, "says which runtime the graph needs")]


def needs_runtime(model):
    if any(node.domain == "com.acme" for node in model.graph):
        model.metadata_props["com.acme.runtime"] = ">=1.0"

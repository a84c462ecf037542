"""Hooks of this pack, which hx calls."""

from hx.contributions import Executor

HX_API = 1


def start(request):
    from hx_ray.ray_engine import RayEngine

    return RayEngine(request)


def hx_executors():
    return [Executor("ray", start, doc="a Ray cluster", retries=True)]

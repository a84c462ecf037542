"""Hooks of this pack, which hx calls."""

from hx.contributions import Executor

HX_API = 1


def start(request):
    from hx_dask.dask_engine import DaskEngine

    return DaskEngine(request)


def hx_executors():
    return [Executor("dask", start, doc="a dask.distributed cluster", retries=True)]

"""Hooks of this pack, which hx calls."""

from hx.contributions import Executor

HX_API = 1


def start(request):
    from hx_slurm.slurm_engine import SlurmEngine

    return SlurmEngine(request)


def hx_executors():
    return [Executor("slurm", start, doc="jobs of Slurm")]

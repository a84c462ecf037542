"""How fast and how small an export is, beside the least it could take and beside torch.onnx.

    job        what is measured: a SPEC, its inputs and options, as data
    sides      who exports it: the floor, hx, dynamo, torchscript
    memory     the most memory that a call takes
    latency    how fast the files run in onnxruntime, and how right they are
    worker     one side, in a process of its own, doing one thing at a time
    child      the other end of a worker
    compare    the whole run: the sides in turn, medians

Every side has its own process, so that memory is its own, and a side that crashes is a row that
says why. The parent asks one of them at a time: nothing runs beside what is measured.
"""

from hx.bench.compare import Result, Row, compare
from hx.bench.job import RIVALS, Job

__all__ = ["RIVALS", "Job", "Result", "Row", "compare"]

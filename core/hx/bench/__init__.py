"""Comparison of hx's time, memory and file size with a lower limit and with torch.onnx.

    job        the subject of a comparison: a SPEC, its inputs and options, as data
    sides      the exporters: the floor, hx, dynamo, torchscript
    memory     the peak memory of a call
    latency    speed of the files in onnxruntime, and their errors
    worker     one side, in its own process, doing one thing at a time
    child      the parent's handle of a worker process
    compare    the whole run: the sides in turn, medians

Every side has its own process: its memory is measured alone, and a side that crashes becomes a
row with the reason. The parent asks one side at a time, so nothing runs beside a measurement.
"""

from hx.bench.comparison_job import RIVALS, Job
from hx.bench.side_by_side import Result, Row, compare

__all__ = ["RIVALS", "Job", "Result", "Row", "compare"]

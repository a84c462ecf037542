"""Run an ONNX file in onnxruntime, with torch tensors in and out.

Tensors cross as bytes, so every dtype that onnxruntime has goes through, those that numpy lacks
(bfloat16, float8) too. Optimisations are on, as they are for whoever opens the file with defaults;
`optimized=False` runs the nodes as they were written. torch and onnxruntime are imported when
something is run.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class Refused(Exception):
    """onnxruntime does not load or does not run a file; the text says why, without its prefixes."""

    def __init__(self, error: Exception) -> None:
        text = re.sub(r"\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error))
        text = re.sub(r"/[\w/.-]*onnxruntime/[\w/.-]+:\d+ ", "", text)  # its own source lines
        text = re.sub(r"onnxruntime::[\w:]+\([^)]*\) .{0,200}? was false\. ", "", text)
        super().__init__(text.strip())

    def node(self, names: Sequence[str]) -> str | None:
        """The node that the message quotes."""
        quoted = re.findall(r"[Nn]ode[^'\"(]{0,20}['\"(]([^'\")]*)", str(self))
        return next((name for name in quoted if name and name in names), None)


class Session:
    """A loaded file."""

    def __init__(
        self,
        source: Path | bytes,
        *,
        optimized: bool = True,
        libraries: Sequence[str | os.PathLike] = (),
    ) -> None:
        import onnxruntime as ort

        wanted = options()
        # A few runs do not repay a second copy of the weights in another layout.
        wanted.add_session_config_entry("session.disable_prepacking", "1")
        if not optimized:
            wanted.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            # Else it keeps the room of every intermediate result, turned weights among them.
            wanted.enable_cpu_mem_arena = wanted.enable_mem_pattern = False
        try:
            for library in libraries:
                wanted.register_custom_ops_library(os.fspath(library))
            self._session = ort.InferenceSession(
                source if isinstance(source, bytes) else os.fspath(source),
                wanted,
                providers=["CPUExecutionProvider"],
            )
        except Exception as error:  # its exceptions share no base
            raise Refused(error) from error

    def run(self, feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """All outputs, in the graph's order."""
        values, alive = {}, []
        for name, tensor in feeds.items():
            values[name], array = to_ort(tensor)
            alive.append(array)
        try:
            results = self._session.run_with_ort_values(None, values)
        except Exception as error:  # as above
            raise Refused(error) from error
        return [from_ort(result) for result in results]


def options(threads: int = 0) -> Any:
    """onnxruntime's defaults, on the cores that we have, with threads that wait without spinning."""
    import onnxruntime as ort

    made = ort.SessionOptions()
    made.log_severity_level = 4  # what goes wrong is raised; nothing is printed besides
    made.intra_op_num_threads = threads or _cores()
    made.inter_op_num_threads = 1
    made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return made


def as_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as a graph has them: both parts, as a last axis."""
    import torch

    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def to_ort(tensor: torch.Tensor) -> tuple[Any, Any]:
    import onnxruntime as ort
    import torch

    from hx.tensors import dtypes

    plain = as_pairs(tensor.detach()).resolve_neg().contiguous().cpu()
    words = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
    width = words.get(plain.element_size())
    if width is None:
        raise Refused(TypeError(f"onnxruntime has no tensor of type {tensor.dtype}"))
    array = plain.reshape(-1).view(width).numpy().reshape(plain.shape)
    number = dtypes.number(plain.dtype)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, number), array


def from_ort(value: Any) -> torch.Tensor:
    import torch

    from hx.tensors import dtypes

    if not value.is_tensor():
        raise Refused(TypeError(f"an output is a {value.data_type()}, not a tensor"))
    if value.data_type() == "tensor(string)":
        raise Refused(TypeError("an output holds strings, which torch has no tensor for"))
    dtype = dtypes.of_number(value.element_type())
    result = torch.empty(tuple(value.shape()), dtype=dtype)
    if result.numel():
        ctypes.memmove(result.data_ptr(), value.data_ptr(), value.tensor_size_in_bytes())
    return result


def _cores() -> int:
    """The cores that this process may use; onnxruntime would count those of the whole machine."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1

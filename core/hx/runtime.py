"""Runs of an ONNX file in onnxruntime, with torch tensors in and out.

Tensors cross as bytes, so every dtype of onnxruntime works, even those that numpy lacks (bfloat16,
float8). Optimisations and prepacking are on, as for anyone who opens the file with defaults, so
their loss of precision shows. `optimized=False` runs the nodes as they were written. torch and
onnxruntime are imported when something runs.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch


class Refused(Exception):
    """Error of onnxruntime, which does not load or run a file; its text has no prefixes."""

    def __init__(self, error: Exception) -> None:
        text = re.sub(r"\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error))
        text = re.sub(r"/[\w/.-]*onnxruntime/[\w/.-]+:\d+ ", "", text)  # its own source lines
        text = re.sub(r"onnxruntime::[\w:]+\([^)]*\) .{0,200}? was false\. ", "", text)
        super().__init__(text.strip())

    def node(self, names: Sequence[str]) -> str | None:
        """Find the node that the message quotes."""
        quoted = re.findall(r"[Nn]ode[^'\"(]{0,20}['\"(]([^'\")]*)", str(self))
        return next((name for name in quoted if name and name in names), None)


class Session:
    """Loaded file in onnxruntime."""

    def __init__(
        self,
        source: Path | bytes,
        *,
        optimized: bool = True,
        libraries: Sequence[str | os.PathLike] = (),
    ) -> None:
        import onnxruntime as ort

        wanted = options()
        if not optimized:
            wanted.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            # Else the session keeps memory for all intermediate results and repacked weights.
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
        """Return all outputs, in the graph's order."""
        values, alive = {}, []
        for name, tensor in feeds.items():
            values[name], array = to_ort(tensor)
            alive.append(array)
        try:
            results = self._session.run_with_ort_values(None, values)
        except Exception as error:  # as above
            raise Refused(error) from error
        return [from_ort(result) for result in results]

    def run_arrays(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return all outputs as numpy arrays, without torch; small floats come from ml_dtypes."""
        import numpy as np
        import onnx
        import onnxruntime as ort

        values = {}
        words = {name: np.ascontiguousarray(a).view(f"u{a.itemsize}") for name, a in feeds.items()}
        try:
            for name, array in feeds.items():
                number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
                values[name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(words[name], number)
            results = self._session.run_with_ort_values(None, values)
        except Exception as error:  # as above
            raise Refused(error) from error
        return [_array(result) for result in results]


def options(threads: int = 1) -> Any:
    """Return onnxruntime's default options, with these threads (0 is one a core), and none that spins.

    With one thread, sums are the same on any machine, so a proof gives the same verdict.
    """
    import onnxruntime as ort

    made = ort.SessionOptions()
    made.log_severity_level = 4  # errors are raised, and nothing else is printed
    made.intra_op_num_threads = threads or _cores()
    made.inter_op_num_threads = 1
    made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return made


def as_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """Turn complex numbers into the form of a graph: both parts, as a last axis."""
    import torch

    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def to_ort(tensor: torch.Tensor) -> tuple[Any, Any]:
    import onnxruntime as ort
    import torch

    from hx import dtypes

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

    from hx import dtypes

    if not value.is_tensor():
        raise Refused(TypeError(f"an output is a {value.data_type()}, not a tensor"))
    if value.data_type() == "tensor(string)":
        raise Refused(TypeError("an output holds strings, which torch has no tensor for"))
    dtype = dtypes.of_number(value.element_type())
    result = torch.empty(tuple(value.shape()), dtype=dtype)
    if result.numel():
        ctypes.memmove(result.data_ptr(), value.data_ptr(), value.tensor_size_in_bytes())
    return result


def _array(value: Any) -> np.ndarray:
    import numpy as np
    import onnx

    if not value.is_tensor() or value.data_type() == "tensor(string)":
        raise Refused(TypeError(f"an output is a {value.data_type()}"))
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.element_type())
    result = np.empty(tuple(value.shape()), dtype)
    if result.size:
        ctypes.memmove(result.ctypes.data, value.data_ptr(), value.tensor_size_in_bytes())
    return result


def _cores() -> int:
    """Count the cores that this process may use; onnxruntime would count the whole machine's."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1

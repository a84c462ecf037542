"""Arrays in JSON: dtype, shape, and the bytes, compressed and in base64."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from typing import Any

import numpy as np


def packed(array: np.ndarray) -> dict[str, Any]:
    """Return an array as data for JSON."""
    raw = np.ascontiguousarray(array).tobytes()
    data = base64.b64encode(zlib.compress(raw, 6)).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def unpacked(found: dict[str, Any]) -> np.ndarray:
    """Return the array; raise ValueError if the data do not hold what they announce."""
    import ml_dtypes  # noqa: F401 - numpy knows the names of small floats afterwards

    dtype = np.dtype(found["dtype"])
    shape = tuple(found["shape"])
    if dtype.hasobject or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"{found['dtype']}{list(shape)} is no array")
    size = math.prod(shape) * dtype.itemsize
    try:
        reader = zlib.decompressobj()
        raw = reader.decompress(base64.b64decode(found["data"], validate=True), size + 1)
    except (binascii.Error, zlib.error) as problem:
        raise ValueError(str(problem)) from None
    if len(raw) != size:
        raise ValueError(f"an array of {size} bytes holds others")
    return np.frombuffer(raw, dtype).reshape(shape)

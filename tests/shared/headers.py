"""Files of safetensors, byte by byte."""

from __future__ import annotations

import json
import struct


def packed(header, data=b"", size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data

"""The bytes of an ONNX file: a graph that is serialized, and weights streamed from where they are.

A protobuf message is a sequence of fields in any order, each a tag, a length and its bytes. So a
file is written as: the IR version; the header of the graph field, which takes the same space
whatever its length is; the large weights of the model; the graph without its weights; the other
weights; the model without its graph. A weight is a short header followed by its own memory, so
nothing of its size is ever built.

Imports nothing heavy when it is imported; onnx is needed when it is used.
"""

from __future__ import annotations

import math
import mmap
import os
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..graph.model_parts import EARLY_WEIGHT_BYTES, Parts, Weight

if TYPE_CHECKING:
    import onnx

PROTOBUF_LIMIT = (1 << 31) - 1  # the largest message that protobuf reads
INLINE_BYTES = (
    1024  # tensors below this many bytes stay in the model file: shape inference reads them
)
PAGE, ALIGN = 4096, 64  # large tensors of a data file start on a page, so that they can be mapped
BUFFER = 256 << 10
BRIEF = 256 << 10  # bytes whose checksum takes no longer than asking another thread for it

# Tags: (field number << 3) | type, for ModelProto.ir_version, .producer_name and .graph,
# GraphProto.initializer, TensorProto.raw_data.
IR_VERSION, PRODUCER, GRAPH, INITIALIZER, RAW_DATA = b"\x08", b"\x12", b"\x3a", b"\x2a", b"\x4a"
WIDTH = 5  # bytes that say how long the graph is; readers take a number with leading zeros
START = len(IR_VERSION) + 1 + len(GRAPH) + WIDTH  # where the graph starts

Write = Callable[[Any], object]


def graph_size(parts: Parts) -> int:
    """The bytes of the graph with its weights in it."""
    return len(parts.graph_bytes) + sum(len(_head(each)) + each.size for each in parts.weights)


def inline_size(parts: Parts) -> int:
    """The bytes of a file that holds its weights itself."""
    return START + graph_size(parts) + len(parts.model_bytes)


def start(parts: Parts, size: int) -> bytes:
    """The first `START` bytes of a file whose graph takes `size` bytes."""
    return IR_VERSION + varint(parts.ir_version) + GRAPH + varint(size, WIDTH)


def write_inline(parts: Parts, write: Write, there: int = 0) -> None:
    """Write what comes after the start, and after so many early weights that are there."""
    for weight in parts.early[there:]:
        for piece in inline(weight):
            write(piece)
    write(parts.graph_bytes)
    for weight in parts.weights:
        if not weight.early:
            for piece in inline(weight):
                write(piece)
    write(parts.model_bytes)


def inline(weight: Weight) -> Iterator[bytes | memoryview]:
    """The bytes of a weight in the model file."""
    yield _head(weight)
    yield from weight.chunks()


def write_data(parts: Parts, write: Write) -> tuple[dict[int, int], str]:
    """Write the large weights; give the offset of each (by its place), and a name for the bytes.

    Weights that are the same memory are written once. The name is made of a checksum per stretch
    of bytes, computed in a second thread while the first one writes.
    """
    import hashlib

    from ..weights.contents import PIECES_IN_USE

    offsets: dict[int, int] = {}
    there: dict[Hashable, int] = {}  # where the bytes of a key are
    digest = hashlib.sha256()
    at = 0
    waiting: deque[Future[int]] = deque()  # checksums of stretches, in their order

    def settle(but: int) -> None:
        while len(waiting) > but:
            digest.update(waiting.popleft().result().to_bytes(4, "little"))

    with ThreadPoolExecutor(1) as pool:

        def put(data: Any) -> None:
            nonlocal at
            if len(data) < BRIEF:
                settle(0)
                digest.update(zlib.crc32(data).to_bytes(4, "little"))
            else:
                waiting.append(pool.submit(zlib.crc32, data))
            write(data)
            settle(PIECES_IN_USE)
            at += len(data)

        for place, weight in enumerate(parts.weights):
            if weight.size < INLINE_BYTES:
                continue
            key = _key(weight)
            if key not in there:
                gap = -at % (PAGE if weight.size >= EARLY_WEIGHT_BYTES else ALIGN)
                if gap:
                    put(bytes(gap))
                there[key] = at
                for chunk in weight.chunks():
                    put(chunk)
            offsets[place] = there[key]
        settle(0)
    digest.update(at.to_bytes(8, "little"))
    return offsets, digest.hexdigest()[:16]


def _key(weight: Weight) -> Hashable:
    """Return a key that weights share if they are the same bytes."""
    region = weight.values.region()
    return id(weight) if region is None else region


def write_external(parts: Parts, offsets: dict[int, int], location: str, write: Write) -> None:
    """Write the model file that goes with a data file."""
    entries = []
    for place, weight in enumerate(parts.weights):
        if place not in offsets:
            values = b"".join(weight.chunks())
            entries.append(_head(weight) + values)
            continue
        proto = _copy(weight.proto)
        proto.data_location = proto.EXTERNAL
        where = {"location": location, "offset": offsets[place], "length": weight.size}
        for key, value in where.items():
            entry = proto.external_data.add()
            entry.key, entry.value = key, str(value)
        head = proto.SerializeToString(deterministic=True)
        entries.append(INITIALIZER + varint(len(head)) + head)
    write(start(parts, len(parts.graph_bytes) + sum(map(len, entries))))
    write(parts.graph_bytes)
    write(b"".join(entries))
    write(parts.model_bytes)


def skeleton(source: Path | bytes) -> onnx.ModelProto:
    """Read a model without its weights, whatever the size of the file: their bytes are skipped."""
    import onnx

    model = onnx.ModelProto()
    if isinstance(source, bytes):
        _read_into(model, memoryview(source))
        return model
    _read_into(model, _mapped(source))
    return model


def outline(path: Path) -> onnx.ModelProto | None:
    """Read a model whose large weights become inputs of their dtypes and shapes.

    There is none for a file with nothing to gain, with weights beside it, or with contents of
    weights that are not plain bytes, as many as the shape says.
    """
    import onnx

    view = _mapped(path)
    if len(view) < BRIEF:
        return None
    model = onnx.ModelProto()
    _read_into(model, view)
    for tag, _, content, end in _fields(view):
        graph = view[content:end] if tag == GRAPH else memoryview(b"")
        for inner, _, begin, stop in _fields(graph):
            if inner != INITIALIZER:
                continue
            if stop - begin < PAGE:
                small = model.graph.initializer.add()
                small.ParseFromString(bytes(graph[begin:stop]))
                if small.external_data:
                    return None
                continue
            large, size = onnx.TensorProto(), 0
            for field, start, inside, after in _fields(graph[begin:stop]):
                if after - inside < PAGE:
                    large.MergeFromString(bytes(graph[begin + start : begin + after]))
                elif field == RAW_DATA:
                    size += after - inside
                else:
                    return None
            dtype = onnx.helper.tensor_dtype_to_np_dtype(large.data_type)
            if size != math.prod(large.dims) * dtype.itemsize:
                return None
            model.graph.input.append(
                onnx.helper.make_tensor_value_info(large.name, large.data_type, large.dims)
            )
    return model


def producer(path: Path) -> str:
    """Return the name of the exporter that an ONNX file states; empty for any other file."""
    view = _mapped(path)
    try:
        found = [bytes(view[begin:end]) for tag, _, begin, end in _fields(view) if tag == PRODUCER]
    except (ValueError, IndexError):  # no protobuf message
        return ""
    return found[-1].decode(errors="replace") if found else ""


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")  # nothing cannot be mapped
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def weight_sizes(path: Path) -> tuple[list[int], list[int]]:
    """The bytes of each weight in a file, and of each beside it; no weight is read."""
    inside: list[int] = []
    outside: list[int] = []
    for size, about in _initializers(path):
        length = about.get("length", "")
        external = int(length) if length.isdigit() else 0
        (outside if external else inside).append(external or size)
    return inside, outside


def external_files(path: Path) -> list[str]:
    """Return the places of files beside a model that hold its weights, as the model names them."""
    return sorted({about["location"] for _, about in _initializers(path) if "location" in about})


def _initializers(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the bytes of each weight in a file, and what it says about values that are elsewhere."""
    import onnx

    view = _mapped(path)
    for tag, _, content, end in _fields(view):
        if tag != GRAPH:
            continue
        for inner, _, begin, stop in _fields(view[content:end]):
            if inner != INITIALIZER:
                continue
            about = {}
            if stop - begin < PAGE:  # else its values are in it
                tensor = onnx.TensorProto.FromString(bytes(view[content + begin : content + stop]))
                about = {entry.key: entry.value for entry in tensor.external_data}
            yield stop - begin, about


def varint(number: int, width: int = 1) -> bytes:
    """A number as protobuf writes it, in at least `width` bytes."""
    out = bytearray()
    while number > 127 or len(out) < width - 1:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _head(weight: Weight) -> bytes:
    """The bytes that come before the values when they are in the model file."""
    head = weight.proto.SerializeToString(deterministic=True) + RAW_DATA + varint(weight.size)
    return INITIALIZER + varint(len(head) + weight.size) + head


def _copy(proto: onnx.TensorProto) -> onnx.TensorProto:
    fresh = type(proto)()
    fresh.CopyFrom(proto)
    return fresh


def _fields(view: memoryview) -> Iterator[tuple[bytes, int, int, int]]:
    """Each field of a message: its tag, where it starts, where its content starts, its end."""
    at = 0
    while at < len(view):
        start = at
        tag, at = _number(view, at)
        kind = tag & 7
        content = at
        if kind == 0:
            _, at = _number(view, at)
        elif kind == 2:
            size, content = _number(view, at)
            at = content + size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("not a protobuf message")
        if at > len(view):
            raise ValueError("the file is cut short")
        yield varint(tag), start, content, at


def _number(view: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = view[at]
        number |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return number, at
        shift += 7


def _read_into(model: onnx.ModelProto, view: memoryview) -> None:
    for tag, start, content, end in _fields(view):
        if tag != GRAPH:
            model.MergeFromString(bytes(view[start:end]))
            continue
        with view[content:end] as graph:
            rest = bytearray()
            for inner, begin, _, stop in _fields(graph):
                if inner != INITIALIZER:
                    rest += graph[begin:stop]
        model.graph.MergeFromString(bytes(rest))

"""An ONNX model as bytes: its graph serialised, its weights streamed from where they are.

A protobuf message is a sequence of fields in any order, each a tag, a length and its bytes. So the
file is written as: the IR version; the header of the graph field, which takes the same space
whatever its length is; the large weights of the model (`hx.ahead` writes them while it runs); the
graph without its weights; the other weights; the model without its graph. A weight is a short
header followed by its own memory, so nothing of its size is ever built.

Imports nothing heavy when it is imported; onnx is needed when it is used.
"""

from __future__ import annotations

import functools
import math
import mmap
import os
import zlib
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import onnx
    import torch

    from hx.weights.contents import Content

LIMIT = (1 << 31) - 1  # the largest message that protobuf reads
SMALL = 1024  # tensors below this many bytes stay in the model file: shape inference reads them
PAGE, LARGE, ALIGN = 4096, 64 << 10, 64  # large tensors start on a page, so that they can be mapped
STEP = 16 << 20
BUFFER = 256 << 10
BEHIND = 2  # stretches of bytes that are still needed when the next one is asked for
BRIEF = 256 << 10  # bytes whose checksum takes no longer than asking another thread for it

# Tags: (field number << 3) | type, for ModelProto.ir_version and .graph, GraphProto.initializer,
# TensorProto.raw_data.
IR_VERSION, GRAPH, INITIALIZER, RAW_DATA = b"\x08", b"\x3a", b"\x2a", b"\x4a"
_SHORT = [bytes((size,)) for size in range(128)]  # `varint` of these
WIDTH = 5  # bytes that say how long the graph is; readers take a number with leading zeros
START = len(IR_VERSION) + 1 + len(GRAPH) + WIDTH  # where the graph starts

Write = Callable[[Any], object]


class Values(Protocol):
    def chunks(self) -> Iterator[memoryview]: ...
    def region(self) -> Hashable: ...


@dataclass
class Weight:
    """One initializer: everything that its TensorProto says except the values, and the values."""

    proto: onnx.TensorProto
    values: Values
    size: int
    early: bool = False  # whether it comes before the graph, when it is in the same file

    @property
    def inline_size(self) -> int:
        return len(_inline_head(self)) + self.size


@dataclass
class Parts:
    """What a file is made of; initializers that have no bytes of their own are in the graph."""

    ir_version: int
    model: onnx.ModelProto  # the rest of it
    graph_bytes: bytes
    weights: list[Weight]
    # Nodes by the pack that wrote them, those of bodies, too; None where nobody has counted.
    counted: Counter[str] | None = None

    def by_pack(self) -> Counter[str]:
        """How many nodes each pack wrote; under no name, those that no converter did."""
        if self.counted is None:
            told = ({e.key: e.value for e in node.metadata_props} for node in self.nodes)
            self.counted = Counter(about.get("hx.pack", "") for about in told)
        return self.counted

    @functools.cached_property
    def model_bytes(self) -> bytes:
        return self.model.SerializeToString(deterministic=True)

    @functools.cached_property
    def graph(self) -> onnx.GraphProto:
        """To be read; what is changed in it is not written."""
        import onnx

        return onnx.GraphProto.FromString(self.graph_bytes)

    @property
    def early(self) -> list[Weight]:
        return [weight for weight in self.weights if weight.early]

    @property
    def graph_size(self) -> int:
        return len(self.graph_bytes) + sum(weight.inline_size for weight in self.weights)

    @property
    def inline_size(self) -> int:
        return START + self.graph_size + len(self.model_bytes)

    @property
    def nodes(self) -> Iterator[onnx.NodeProto]:
        """Those of bodies, too."""
        return _all_nodes(self.graph)


def is_early(name: str, tensor: torch.Tensor) -> bool:
    """Whether a constant of this name (its own, or none) comes before the graph."""
    return bool(name) and tensor.numel() * tensor.element_size() >= LARGE


def weight(name: str, content: Content, early: bool = False) -> Weight:
    import onnx

    from hx.tensors import dtypes

    number, shape = dtypes.number(content.dtype), list(content.shape)
    proto = onnx.TensorProto(name=name, data_type=number, dims=shape)
    return Weight(proto, content, math.prod(shape) * content.dtype.itemsize, early)


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
    yield _inline_head(weight)
    yield from chunks(weight)


def write_data(parts: Parts, write: Write) -> tuple[dict[int, int], str]:
    """Write the large weights; give the offset of each (by its place), and a name for the bytes.

    Weights that are the same memory are written once. The name is made of a checksum per stretch
    of bytes, computed in a second thread while the first one writes.
    """
    import hashlib

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
            settle(BEHIND)
            at += len(data)

        for place, weight in enumerate(parts.weights):
            if weight.size < SMALL:
                continue
            key = _key(weight)
            if key not in there:
                gap = -at % (PAGE if weight.size >= LARGE else ALIGN)
                if gap:
                    put(bytes(gap))
                there[key] = at
                for chunk in chunks(weight):
                    put(chunk)
            offsets[place] = there[key]
        settle(0)
    digest.update(at.to_bytes(8, "little"))
    return offsets, digest.hexdigest()[:16]


def _key(weight: Weight) -> Hashable:
    """What weights share that are the same bytes."""
    region = weight.values.region()
    return id(weight) if region is None else region


def write_external(parts: Parts, offsets: dict[int, int], location: str, write: Write) -> None:
    """Write the model file that goes with a data file."""
    entries = []
    for place, weight in enumerate(parts.weights):
        if place not in offsets:
            values = b"".join(chunks(weight))
            entries.append(_inline_head(weight) + values)
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


def chunks(weight: Weight) -> Iterator[memoryview]:
    """The bytes of a weight, in steps small enough for Ctrl-C to be answered between them."""
    done = 0
    for chunk in weight.values.chunks():
        for start in range(0, len(chunk), STEP):
            yield chunk[start : start + STEP]
        done += len(chunk)
    if done != weight.size:
        raise RuntimeError(
            f"{weight.proto.name} gave {done} bytes where {weight.size} were announced"
        )


def skeleton(source: Path | bytes) -> onnx.ModelProto:
    """Read a model without its weights, whatever the size of the file: their bytes are skipped."""
    import onnx

    model = onnx.ModelProto()
    if isinstance(source, bytes):
        _read_into(model, memoryview(source))
        return model
    _read_into(model, _mapped(source))
    return model


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")  # nothing cannot be mapped
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def weight_sizes(path: Path) -> tuple[list[int], list[int]]:
    """The bytes of each weight in a file, and of each beside it; no weight is read."""
    import onnx

    inside: list[int] = []
    outside: list[int] = []
    view = _mapped(path)
    for tag, _, content, end in _fields(view):
        if tag != GRAPH:
            continue
        for inner, _, begin, stop in _fields(view[content:end]):
            if inner != INITIALIZER:
                continue
            length = 0
            if stop - begin < PAGE:  # it may say that its values are elsewhere
                tensor = onnx.TensorProto.FromString(bytes(view[content + begin : content + stop]))
                said = {entry.key: entry.value for entry in tensor.external_data}
                length = int(said["length"]) if said.get("length", "").isdigit() else 0
            (outside if length else inside).append(length or stop - begin)
    return inside, outside


def field(tag: bytes, content: bytes) -> bytes:
    """A field whose content is a text, or a message."""
    size = len(content)
    return tag + (_SHORT[size] if size < 128 else _length(size)) + content


def varint(number: int, width: int = 1) -> bytes:
    """A number as protobuf writes it, in at least `width` bytes."""
    out = bytearray()
    while number > 127 or len(out) < width - 1:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


_length = functools.lru_cache(maxsize=4096)(varint)


def _inline_head(weight: Weight) -> bytes:
    """The bytes that come before the values when they are in the model file."""
    head = weight.proto.SerializeToString(deterministic=True) + RAW_DATA + varint(weight.size)
    return INITIALIZER + varint(len(head) + weight.size) + head


def _copy(proto: onnx.TensorProto) -> onnx.TensorProto:
    fresh = type(proto)()
    fresh.CopyFrom(proto)
    return fresh


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)


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

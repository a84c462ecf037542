"""Contents of a weight, read on demand: from a file, the user's own tensor, or cast from those.

Each has a `dtype` and a `shape`, and gives its bytes in pieces (`chunks`) or as one tensor
(`load`). A piece stays valid while the same thread asks for PIECES_IN_USE more; the request after
those overwrites it. Two contents that are the same bytes have the same `region`. Imports torch:
import it late.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Protocol

import torch

from .. import tensor_bytes
from ..errors import ExportError
from ..ir.value import Absent, Constant

PIECES_IN_USE = 2  # pieces that are still needed when the next one is asked for
PIECE = 1 << 19  # small enough to stay in the cache of a core between being read and written
STAGE = PIECE  # bytes that are copied together first, and turned from there
TURNED_ROWS = 16  # fewer would read a part of each line of the cache


class Content(Protocol):
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def chunks(self) -> Iterator[memoryview]: ...
    def load(self) -> torch.Tensor: ...
    def region(self) -> Hashable: ...


@dataclass(frozen=True)
class Stored:
    """A byte range of a file."""

    path: Path
    at: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def chunks(self) -> Iterator[memoryview]:
        left = self.nbytes
        with self._opened() as file:
            while left:
                piece = self._fill(file, _room(min(PIECE, left)).numpy().data)
                left -= len(piece)
                yield piece

    def load(self) -> torch.Tensor:
        made = torch.empty(self.shape, dtype=self.dtype)
        if made.numel():
            with self._opened() as file:
                self._fill(file, made.reshape(-1).view(torch.uint8).numpy().data)
        return made

    def region(self) -> Hashable:
        return self.path, self.at, self.nbytes, self.dtype

    @contextlib.contextmanager
    def _opened(self) -> Iterator[FileIO]:
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(self.at)
                yield file
        except FileNotFoundError as problem:
            raise ExportError(f"{self.path} is gone") from problem

    def _fill(self, file: FileIO, room: memoryview) -> memoryview:
        done = 0
        while done < len(room):
            try:
                got = file.readinto(room[done:])
            except OSError as problem:
                raise ExportError(f"{self.path} cannot be read: {problem.strerror}") from problem
            if not got:
                raise ExportError(f"{self.path} became shorter while it was read")
            done += got
        return room


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor that is held elsewhere."""

    tensor: torch.Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    def chunks(self) -> Iterator[memoryview]:
        return tensor_bytes.chunks(self.tensor)

    def load(self) -> torch.Tensor:
        return self.tensor.detach().cpu()

    def region(self) -> Hashable:
        return tensor_bytes.region(self.tensor) or id(self.tensor)


@dataclass(frozen=True, eq=False)
class Cast:
    """Another content in another dtype, cast piece by piece."""

    of: Content
    dtype: torch.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.of.shape

    def chunks(self) -> Iterator[memoryview]:
        width, rest = self.of.dtype.itemsize, b""
        for chunk in self.of.chunks():
            if rest or len(chunk) % width:  # a file gives as many bytes as it likes
                chunk = memoryview(rest + bytes(chunk))
            whole = len(chunk) - len(chunk) % width
            rest = bytes(chunk[whole:])
            if whole:
                part = chunk[:whole]
                part = memoryview(bytearray(part)) if part.readonly else part
                numbers = torch.frombuffer(part, dtype=self.of.dtype)
                yield numbers.to(self.dtype).view(torch.uint8).numpy().data

    def load(self) -> torch.Tensor:
        return self.of.load().to(self.dtype)

    def region(self) -> Hashable:
        return self.of.region(), self.dtype


@dataclass(frozen=True, eq=False)
class Scaled:
    """Another content times factors that are broadcast to its shape, row by row."""

    of: Content
    factors: torch.Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.of.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.of.shape

    def chunks(self) -> Iterator[memoryview]:
        if not math.prod(self.shape):
            return
        rows = self.of.load()
        # malloc keeps much of the memory of larger products, when there are several at once.
        step = _rows_per_piece(rows, _rooms.size >> 1)
        factors = self.factors.expand(len(rows), *self.factors.shape[1:])
        for part, factor in zip(rows.split(step), factors.split(step)):
            made = torch.mul(part, factor, out=_room_like(part))
            yield made.reshape(-1).view(torch.uint8).numpy().data

    def load(self) -> torch.Tensor:
        return self.of.load() * self.factors

    def region(self) -> Hashable:
        return self.of.region(), self.factors.numpy().tobytes()


@dataclass(frozen=True, eq=False)
class Permuted:
    """A tensor that is held elsewhere, with its axes in another order."""

    of: Held
    order: tuple[int, ...]

    @property
    def dtype(self) -> torch.dtype:
        return self.of.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.of.shape[axis] for axis in self.order)

    def chunks(self) -> Iterator[memoryview]:
        if not math.prod(self.shape):
            return
        rows = self.load()
        strides = rows.stride()
        lies = sorted(range(rows.dim()), key=lambda axis: -strides[axis])
        step = max(TURNED_ROWS, _rows_per_piece(rows, _rooms.size))
        turn = None
        for part in rows.permute(lies).split(step, lies.index(0)):
            if turn is None or part.shape != turn.shape:
                turn = _Turn(part, [lies.index(axis) for axis in range(part.dim())])
            yield turn(part)

    def load(self) -> torch.Tensor:
        return self.of.load().permute(self.order)

    def region(self) -> Hashable:
        return self.of.region(), self.order


@dataclass(frozen=True, eq=False)
class Stacked:
    """Contents of one dtype and shape, one behind the other along a new first axis."""

    each: tuple[Content, ...]

    @property
    def dtype(self) -> torch.dtype:
        return self.each[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.each), *self.each[0].shape)

    def chunks(self) -> Iterator[memoryview]:
        for one in self.each:
            yield from one.chunks()

    def load(self) -> torch.Tensor:
        return torch.stack([one.load() for one in self.each])

    def region(self) -> Hashable:
        return tuple(one.region() for one in self.each)


def of(constant: Constant) -> Content:
    return constant.content if isinstance(constant, Absent) else Held(constant.tensor)


class _Rooms(threading.local):
    """Buffers for pieces: a thread reuses the same few in turn."""

    def __init__(self) -> None:
        self.size, self.count = PIECE, PIECES_IN_USE + 1
        self.ring: deque[torch.Tensor] = deque()
        self.stage: torch.Tensor | None = None


_rooms = _Rooms()


@contextlib.contextmanager
def in_one_room(size: int) -> Iterator[None]:
    """Use one buffer for pieces of up to `size` bytes, each done with before the next."""
    was = dict(vars(_rooms))
    _rooms.size, _rooms.count, _rooms.ring, _rooms.stage = size, 1, deque(), None
    try:
        yield
    finally:
        vars(_rooms).update(was)


def _next_room(size: int) -> torch.Tensor:
    """A buffer for at least so many bytes."""
    if size > _rooms.size:
        return torch.empty(size, dtype=torch.uint8)
    ring = _rooms.ring
    if len(ring) < _rooms.count:
        ring.append(torch.empty(_rooms.size, dtype=torch.uint8))
    else:
        ring.rotate(-1)
    return ring[-1]


def _room(size: int) -> torch.Tensor:
    return _next_room(size)[:size]


def _room_like(part: torch.Tensor) -> torch.Tensor:
    room = _room(part.numel() * part.element_size())
    return room.view(part.dtype).reshape(part.shape)


class _Turn:
    """Permutes parts of one shape, given in memory order, in few calls of torch.

    Everything possible is prepared once: each call of torch lets the model's thread run in between,
    and has to wait for it. So one call permutes a whole part, piece by piece: data copied together
    first, into a buffer that stays in the cache, is permuted quickly.
    """

    def __init__(self, part: torch.Tensor, order: list[int]) -> None:
        self.shape, self.order = part.shape, order
        self.size = part.numel() * part.element_size()
        self.made: dict[int, _Made] = {}  # by the room's id
        self.axis = order[0]  # of the part, which is the first of what it becomes
        self.rows = 0  # of that axis, that are turned at once: 0 where no copy comes first
        if not part.is_contiguous():
            whole = part.shape[self.axis]
            self.rows = min(whole, max(TURNED_ROWS, STAGE * whole // self.size))

    def __call__(self, part: torch.Tensor) -> memoryview:
        room = _next_room(self.size)
        made = self.made.get(id(room)) or self._within(room, part)
        if not self.rows:
            made.whole.copy_(part.permute(self.order))
        else:
            bits = part.split(self.rows, self.axis)
            read = [x for pair in zip(bits, made.turned) for x in pair]
            torch._foreach_copy_(made.written, read)
        return made.data

    def _within(self, room: torch.Tensor, part: torch.Tensor) -> _Made:
        place = room[: self.size]
        whole = place.view(part.dtype).reshape([self.shape[axis] for axis in self.order])
        made = _Made(whole, place.numpy().data)
        for rows in whole.split(self.rows) if self.rows else ():
            sizes = list(self.shape)
            sizes[self.axis] = len(rows)
            stage = _stage(rows.numel() * rows.element_size()).view(part.dtype).reshape(sizes)
            made.written += stage, rows
            made.turned.append(stage.permute(self.order))
        if self.size <= _rooms.size:  # else each piece has a room of its own, which goes with it
            self.made[id(room)] = made
        return made


@dataclass
class _Made:
    """A buffer, in the form of the result permuted into it."""

    whole: torch.Tensor
    data: memoryview
    written: list[torch.Tensor] = field(default_factory=list)  # by turns: the stage, and some rows
    turned: list[torch.Tensor] = field(default_factory=list)  # the stage as these rows are read


def _stage(size: int) -> torch.Tensor:
    room = _rooms.stage
    if room is None or len(room) < size:
        _rooms.stage = room = torch.empty(max(size, STAGE), dtype=torch.uint8)
    return room[:size]


def _rows_per_piece(rows: torch.Tensor, size: int) -> int:
    """Return the number of rows in a piece of `size` bytes."""
    return max(1, size * len(rows) // (rows.numel() * rows.element_size()))


def cast(content: Content, *dtypes: torch.dtype) -> Content:
    """Apply several casts to a content; those that change nothing are left out."""
    for dtype in dtypes:
        if content.dtype != dtype:
            content = Cast(content, dtype)
    return content

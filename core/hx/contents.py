"""What a weight holds, without holding it: in a file, in the user's own tensor, or cast from those.

Each has a `dtype` and a `shape`, gives its bytes in pieces (`chunks`: each is valid until so many
more as `wire.BEHIND` says were asked for, and the next one is), or as one tensor (`load`), and
answers two that are the same bytes with the same `region`. Imports torch: import it late.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Protocol, TypeVar

import torch

from . import memory
from .errors import ExportError
from .values import Absent, Constant
from .wire import BEHIND

Room = TypeVar("Room")
ROW_MAJOR = torch.contiguous_format
PIECE = 1 << 20  # small enough to stay in the cache of a core between being read and written
PRODUCTS = PIECE >> 2  # of larger ones, several at once, malloc keeps much of the room


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
    """A stretch of a file."""

    path: Path
    at: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def chunks(self) -> Iterator[memoryview]:
        left = self.nbytes
        rooms = _in_turn(lambda: memoryview(bytearray(min(PIECE, self.nbytes))))
        with self._opened() as file:
            while left:
                piece = self._fill(file, next(rooms)[: min(PIECE, left)])
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
    """A tensor that somebody else holds."""

    tensor: torch.Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    def chunks(self) -> Iterator[memoryview]:
        return memory.chunks(self.tensor)

    def load(self) -> torch.Tensor:
        return self.tensor.detach().cpu()

    def region(self) -> Hashable:
        return memory.region(self.tensor) or id(self.tensor)


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
        step = max(1, PRODUCTS * len(rows) // (rows.numel() * rows.element_size()))
        factors = self.factors.expand(len(rows), *self.factors.shape[1:])
        rooms = _in_turn(lambda: torch.empty_like(rows[:step], memory_format=ROW_MAJOR))
        for part, factor, room in zip(rows.split(step), factors.split(step), rooms):
            made = torch.mul(part, factor, out=room[: len(part)])
            yield made.reshape(-1).view(torch.uint8).numpy().data

    def load(self) -> torch.Tensor:
        return self.of.load() * self.factors

    def region(self) -> Hashable:
        return self.of.region(), self.factors.numpy().tobytes()


def of(constant: Constant) -> Content:
    return constant.content if isinstance(constant, Absent) else Held(constant.tensor)


def _in_turn(make: Callable[[], Room]) -> Iterator[Room]:
    """The few buffers that a piece after the other is made in."""
    made: deque[Room] = deque()
    while True:
        made.append(make() if len(made) <= BEHIND else made.popleft())
        yield made[-1]


def cast(content: Content, *dtypes: torch.dtype) -> Content:
    """The content after one cast behind the other; those that change nothing are left out."""
    for dtype in dtypes:
        if content.dtype != dtype:
            content = Cast(content, dtype)
    return content

"""Weights go to the file while the model still runs, in a second thread, where a core is idle.

Which of them the graph has, and under which names, is known when it is assembled. Nearly always it
has those that nodes read, in the order in which they were first read, so that is how they are
written as the recording meets them. In the end `keep` says how many of them are right; behind those
the file is cut off and goes on as it would have without: the bytes are the same.

Imports nothing heavy when it is imported.
"""

from __future__ import annotations

import _thread
import itertools
import operator
import os
from builtins import len  # their own: `world` hooks those of the model
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from hx.errors import HxError
from hx.saving import sent, wire
from hx.saving.at_once import whole

if TYPE_CHECKING:
    from io import FileIO

    from hx.tensors.values import Constant
    from hx.weights.contents import Content

    Made = Callable[[], Content]


ROOM = 1 << 20  # bytes made at once; for each piece, the model waits for this thread a moment


class Ahead:
    """`put` each weight that a node reads; `keep` those that the model turned out to have.

    The thread is one of `_thread`, which is none of those that a model's code may count. It has the
    file open for itself: so whenever an interrupt comes, it never writes where it should not.
    """

    def __init__(self, path: Path, replaces: bool = False) -> None:
        self._path = path
        self._replaces = replaces  # another file, so that the system will send all of it at once
        self._sent = 0  # bytes of the file that are on their way to the disk
        self._put: list[tuple[Constant, str]] = []
        self._work: SimpleQueue[tuple[str, Made] | None] = SimpleQueue()
        self._limit: int | None = None  # how many of those that were put are wanted, once known
        self._written: list[tuple[wire.Weight, int]] = []  # each with its end in the file
        self._state = ""  # of the thread: "" before it was started, "asked", "running", "over"
        self._over: SimpleQueue[None] = SimpleQueue()
        self._process = os.getpid()

    def put(self, constant: Constant, name: str, made: Made) -> None:
        """A constant that a node reads, and how what is stored of it is made, under which name."""
        self._put.append((constant, name))
        self._work.put((name, made))
        if not self._state:
            self._state = "asked"
            _thread.start_new_thread(self._run, ())

    def keep(self, early: Sequence[wire.Weight]) -> tuple[int, int]:
        """How many of the weights that the file begins with are in it, and where they end."""
        names = [weight.proto.name for weight in early]
        same = map(operator.eq, (name for _, name in self._put), names)
        self._stop(len(list(itertools.takewhile(bool, same))))
        count, end = 0, wire.START
        for (constant, _), (weight, its_end), final in zip(self._put, self._written, early):
            if constant.written() or not _same(weight, final):
                break
            count, end = count + 1, its_end
        return count, end

    def close(self) -> None:
        self._stop(0)

    def _stop(self, limit: int) -> None:
        if os.getpid() != self._process:  # forked by the model: it has no thread, and no file
            return
        self._limit = limit
        self._work.put(None)
        while self._state in ("asked", "running"):
            try:
                self._over.get(timeout=1)
            except Empty:
                if self._state == "asked":  # an interrupt came just before it was started
                    self._limit = 0
                    if self._state == "asked":  # still: if it ever starts, it sees that
                        return

    def _run(self) -> None:
        self._state = "running"
        try:
            from hx.weights.contents import in_one_room

            with in_one_room(ROOM), self._path.open("r+b", buffering=0) as file:
                end = file.seek(wire.START)
                while (work := self._next(file, end)) is not None:
                    name, made = work
                    weight = wire.weight(name, made(), early=True)
                    # What is before the bytes goes with the first of them: each call of the system
                    # lets the model's thread run in between, and has to wait for it.
                    pieces = wire.inline(weight)
                    begun = [next(pieces)]
                    for piece in pieces:
                        if self._past():
                            return
                        end += whole(file, [*begun, piece])
                        begun = []
                    end += whole(file, begun)
                    self._written.append((weight, end))
        except (OSError, HxError, RuntimeError):
            # A full disk, a tensor without bytes: the save writes all that is missing here itself,
            # meets the same error, and tells it.
            pass
        finally:
            self._state = "over"
            self._over.put(None)

    def _next(self, file: FileIO, end: int) -> tuple[str, Made] | None:
        """The next of what was put; until there is one, what is written is sent to the disk."""
        if self._replaces and self._work.empty() and (send := sent.sender()) is not None:
            while self._sent < end and self._work.empty():
                size = min(sent.PIECE, end - self._sent)
                send(file.fileno(), self._sent, size)
                self._sent += size
        return self._work.get()

    def _past(self) -> bool:
        return self._limit is not None and len(self._written) >= self._limit


def _same(weight: wire.Weight, final: wire.Weight) -> bool:
    """Whether both say the same, and read the same bytes of memory."""
    region = weight.values.region()
    return region is not None and region == final.values.region() and weight.proto == final.proto


def worthwhile() -> bool:
    """Whether a core is idle while the model runs; else the two would take turns."""
    import torch

    cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    return torch.get_num_threads() < len(cores)

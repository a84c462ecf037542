"""Comparison of a file with the model on one core, while the model runs on further cases on another.

A case is compared as soon as it is known, in the order in which cases come. The results are those of
`prove` on all cases at once.
"""

from __future__ import annotations

import _thread
import os
import queue
import threading
from collections.abc import Callable, Iterator

import torch

from ..cleanup import Reversible
from .file_proof import Case, Proof, prove
from .sessions.open_file import OpenFile, uses_kernel


def may_run_beside(file: OpenFile) -> bool:
    """Return whether a file may run while the model does: its weights are few enough for both.

    Kernels in Python belong to somebody else, who may expect the main thread.
    """
    kernels = [op for op in file.custom_ops if isinstance(op, type)]
    return not any(uses_kernel(each, file.model) for each in kernels) and file.optimised


class Comparison(Reversible):
    """Context manager of a thread in which a file is compared with the model on each case.

    The thread is one of `_thread`, which a model's own code does not count.
    """

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._cases: queue.SimpleQueue[Case | None] = queue.SimpleQueue()
        self._stages: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._count = 0
        self._stopped = False
        self._proof: Proof | None = None
        self._error: BaseException | None = None
        self._process = os.getpid()
        self._started = False
        self._ended = threading.Event()

    def add(self, case: Case) -> None:
        self._count += 1
        self._cases.put(case)

    def finish(self, progress: Callable[[str], None]) -> Proof:
        """Wait for the results of all cases; an error of the thread is raised here."""
        self._cases.put(None)
        while (stage := self._stages.get()) is not None:
            progress(f"{stage} of {self._count}" if stage[-1].isdigit() else stage)
        if self._error is not None:
            raise self._error
        assert self._proof is not None
        return self._proof

    def _set_up(self) -> Comparison:
        ready = threading.Event()
        threads = torch.get_num_threads()
        _thread.start_new_thread(self._compare, (ready,))
        self._started = True
        ready.wait()
        torch.set_num_threads(threads)  # the thread set what further threads begin with
        return self

    def _undo(self) -> None:
        self._stopped = True
        self._cases.put(None)
        if self._started and os.getpid() == self._process:  # a fork of the model has no such thread
            self._ended.wait()

    def _compare(self, ready: threading.Event) -> None:
        try:
            torch.set_num_threads(1)
            ready.set()
            self._proof = prove(self._file, self._given(), progress=self._stages.put)
        except BaseException as error:  # it belongs to whoever waits for the result
            self._error = error
        finally:
            ready.set()
            self._stages.put(None)
            self._ended.set()

    def _given(self) -> Iterator[Case]:
        while (case := self._cases.get()) is not None and not self._stopped:
            yield case

"""Comparison of a file with the model on one core, while the model runs on further cases on another.

A case is compared as soon as it is known, in the order in which cases come. The results are those of
`prove` on all cases at once.
"""

from __future__ import annotations

import contextlib
import os
import queue
from _thread import start_new_thread  # its name in `_thread` may belong to a recording
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import torch

from ..cleanup import Reversible, run_inside
from .cases.case_source import Planned
from .cases.plan import planned_cases
from .cases.recorded_sizes import recorded
from .cases.together import where_others_failed
from .differences.float64 import InFloat64
from .differences.halves import Watch, passed
from .file_proof import Case, CaseCheck, Proof, prove
from .promises.surely_wrong import is_near, is_surely_wrong
from .sessions.open_file import OpenFile, uses_kernel
from .subject import Subject

_Signal: TypeAlias = "queue.SimpleQueue[None]"


def may_run_beside(file: OpenFile) -> bool:
    """Return whether a file may run at the same time as the model: its weights are small enough.

    Kernels in Python are third-party code, which may rely on the main thread.
    """
    kernels = [op for op in file.custom_ops if isinstance(op, type)]
    return not any(uses_kernel(each, file.model) for each in kernels) and file.optimised


class Comparison(Reversible):
    """Context manager of a thread in which a file is compared with the model on each case.

    The thread is one of `_thread`, which a model's own code does not count. It and its owner speak
    through queues that are written in C: the model may have replaced what Python's own would call.
    """

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._cases: queue.SimpleQueue[Case | _Signal | None] = queue.SimpleQueue()
        self._stages: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._count = 0
        self._stopped = False
        self._proof = Proof()
        self._error: BaseException | None = None
        self._process = os.getpid()
        self._started = False
        self._is_over = False
        self._over: _Signal = queue.SimpleQueue()

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
        return self._proof

    def so_far(self) -> list[CaseCheck]:
        """Wait for the results of the cases that were added, and return them."""
        compared: _Signal = queue.SimpleQueue()
        self._cases.put(compared)
        if not self._is_over:  # else nobody may be there to answer
            compared.get()
        return [*self._proof.cases]

    def _set_up(self) -> Comparison:
        ready: _Signal = queue.SimpleQueue()
        threads = torch.get_num_threads()
        start_new_thread(self._compare, (ready,))
        self._started = True
        ready.get()
        torch.set_num_threads(threads)  # the thread set what further threads begin with
        return self

    def _undo(self) -> None:
        self._stopped = True
        self._cases.put(None)
        if self._started and os.getpid() == self._process:  # a fork of the model has no such thread
            while not self._is_over:
                with contextlib.suppress(queue.Empty):
                    self._over.get(timeout=1)

    def _compare(self, ready: _Signal) -> None:
        try:
            torch.set_num_threads(1)
            ready.put(None)
            prove(
                self._file,
                self._given(),
                progress=self._stages.put,
                proof=self._proof,
                blames=False,
            )
        except BaseException as error:  # it belongs to whoever waits for the result
            self._error = error
        finally:
            ready.put(None)
            self._stages.put(None)
            self._is_over = True
            while not self._cases.empty():
                if isinstance(case := self._cases.get(), queue.SimpleQueue):
                    case.put(None)
            self._over.put(None)

    def _given(self) -> Iterator[Case]:
        while (case := self._cases.get()) is not None and not self._stopped:
            if isinstance(case, queue.SimpleQueue):
                case.put(None)  # nobody asks for the next case before the last one is compared
            else:
                yield case


def compare_planned(
    subject: Subject,
    file: OpenFile,
    quantized: InFloat64,
    progress: Callable[[str], None],
) -> Proof:
    """Plan the cases, and compare the file with the model on each: on another core, where it can."""
    dtype = subject.recipe.request.weights.dtype
    # Only where needed: PyTorch's compiler notes when it was not called because of a mode.
    seen = Watch() if passed(file.model) else None
    if seen is not None or not may_run_beside(file):
        subject.cases = planned_cases(subject, quantized, file.source, seen)
        for case in subject.cases:
            case.computed = dtype or (seen.dtype if seen is not None else None)
        return prove(file, subject.cases, progress=progress, blames=False)

    def compare(comparison: Comparison) -> Proof:
        def found(case: Case) -> None:
            case.computed = dtype
            comparison.add(case)

        def is_wrong(cases: Sequence[Case]) -> bool:
            # To wait costs time, and where nothing left the graph a file is hardly ever wrong.
            asks = not all(escape.carried for escape in subject.escapes.values())
            return asks and is_surely_wrong(subject, cases, comparison.so_far())

        subject.cases = planned_cases(
            subject, quantized, file.source, found=found, is_wrong=is_wrong
        )
        return comparison.finish(progress)

    again = where_others_failed(subject, Planned(quantized, file.source))
    for case in again:
        case.computed = dtype
    near = [case for case in again if is_near(subject, case)]
    if near and is_surely_wrong(
        subject, near, prove(file, near, checker=False, blames=False).cases
    ):
        subject.cases = [*recorded(subject, Planned(quantized, file.source)), *again]
        return prove(file, subject.cases, progress=progress, blames=False)
    return run_inside(Comparison(file), compare)

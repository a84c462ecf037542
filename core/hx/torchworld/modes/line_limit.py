"""A limit on the lines that a model runs: on inputs other than the user's, a loop may never end.

`while x.norm() > 1e-3` ends for the user's inputs, and maybe never on zeros. Lines of the model's
own code are counted, not seconds, so that a slow machine comes to the same verdict.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

_IMPORTLIB = "<frozen importlib._bootstrap>"


class RunGivenUp(BaseException):
    """A run of the model that hx ends. Not an Exception: those the model may catch."""


class OutOfLines(RunGivenUp):
    """The model ran more lines than it may."""


class LineLimit:
    """`with LineLimit(limit, skips):` raises OutOfLines in the model once it has run more lines.

    `skips` tells which code is not the model's. Code without lines, such as TorchScript's, is not
    counted, nor is code that runs to import a module: an interrupted import leaves half a module.
    """

    def __init__(self, limit: float, skips: Callable[[CodeType], bool]) -> None:
        self.limit, self.lines = limit, 0
        self._skips = skips
        self._before: Any = None
        self._imports = 0  # that are under way

    def __enter__(self) -> LineLimit:
        self._before = sys.gettrace()
        sys.settrace(self._of_frame)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)

    def _of_frame(self, frame: FrameType, event: str, of: Any) -> Any:
        code = frame.f_code
        if code.co_name == "_find_and_load" and code.co_filename == _IMPORTLIB:
            self._imports += 1
            return self._of_import
        return None if self._imports or self._skips(code) else self._count

    def _of_import(self, frame: FrameType, event: str, of: Any) -> Any:
        if event == "return":  # also where it raises
            self._imports -= 1
        return self._of_import

    def _count(self, frame: FrameType, event: str, of: Any) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines > self.limit:
                raise OutOfLines
        return self._count

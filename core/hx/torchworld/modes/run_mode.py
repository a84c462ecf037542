"""Runs of the model in a mode of PyTorch, in which nothing is compiled."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack as count_operator_modes
from torch._C import _pop_torch_dispatch_stack as pop_operators
from torch._C import _push_on_torch_dispatch_stack as push_operators
from torch._C import _push_on_torch_function_stack as push_functions
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ...cleanup import Reversible
from .. import patching
from . import modes


class NothingCompiled(Reversible):
    """`with NothingCompiled():` keeps PyTorch's compiler from code that runs in this thread.

    It does not trace through modes, and notes for good which code it has met in one: `torch.cond`
    and `torch.while_loop`, which compile themselves, would fail ever after.
    """

    def __init__(self) -> None:
        self._hooks: list[Any] = []

    def _set_up(self) -> None:
        if "torch._dynamo.eval_frame" in sys.modules:
            self._let_nothing_compile()
        else:
            self._hook(torch.compile, self._first_compile)

    def _undo(self) -> None:
        for hook in self._hooks:
            hook.close()

    def _first_compile(self, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call `torch.compile`, which loads PyTorch's compiler if nothing did before."""
        importlib.import_module("torch._dynamo.eval_frame")
        self._let_nothing_compile()
        return original(*args, **kwargs)

    def _let_nothing_compile(self) -> None:
        compiler = sys.modules["torch._dynamo.eval_frame"]
        self._hook(compiler._callback_from_stance, lambda original, args, kwargs: None)

    def _hook(self, function: Any, handler: Callable) -> None:
        self._hooks.append(patching.hooks({function: handler}))
        self._hooks[-1].__enter__()


class RunMode(Reversible):
    """`with RunMode(mode):` turns a mode on in this thread, and off again whatever happens."""

    def __init__(self, mode: TorchFunctionMode | TorchDispatchMode) -> None:
        self._mode = mode
        self._uncompiled = NothingCompiled()
        self._functions: Any = None
        self._operators: int | None = None

    def _set_up(self) -> Any:
        self._uncompiled.__enter__()
        if isinstance(self._mode, TorchDispatchMode):
            self._operators = count_operator_modes()
            push_operators(self._mode)
        else:
            self._functions = modes.functions()
            push_functions(self._mode)
        return self._mode

    def _undo(self) -> None:
        while self._operators is not None and count_operator_modes() > self._operators:
            pop_operators(None)
        if self._functions is not None:
            modes.set_functions(self._functions)
        self._uncompiled.close()


def in_a_mode() -> bool:
    """Return True if any mode sees the operators that run in this thread."""
    return count_operator_modes() > 0

"""Modes for the operators that run: PyTorch's compiler stays out of them."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from .run_mode import NothingCompiled


class OperatorMode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or PyTorch would import its compiler for the first call


class Seeing(OperatorMode):
    """Sees the result of every operator, and changes nothing. Nothing is compiled meanwhile."""

    supports_higher_order_operators = True  # torch.cond and the like run as they are

    def __init__(self) -> None:
        super().__init__()
        self._uncompiled = NothingCompiled()

    def __enter__(self) -> Any:
        self._uncompiled.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        try:
            super().__exit__(*exc)
        finally:
            self._uncompiled.close()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.see(result)
        return result

    def see(self, result: Any) -> None:
        raise NotImplementedError

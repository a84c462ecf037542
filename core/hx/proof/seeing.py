"""A mode under which a model runs as it always does, and every operator that it runs is seen."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Seeing(TorchDispatchMode):
    supports_higher_order_operators = True  # torch.cond and its like, which run as they are

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else PyTorch wraps the method below, and imports its compiler with that

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.see(result)
        return result

    def see(self, result: Any) -> None:
        raise NotImplementedError

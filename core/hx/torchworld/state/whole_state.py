"""State of all modules and tensors of a model, compared at once with what it was.

To see that there is nothing to restore takes much less time than to restore module by module. What
is compared is what `Shallow.restore` and `KeptTensor.untouched` look at, by identity as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import torch

from .kept_tensor import KeptTensor
from .remembered_items import identical
from .shallow import Shallow

_OF_A_TENSOR = attrgetter("_version", "shape", "dtype", "layout", "requires_grad", "is_leaf")
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Attributes:
    """Attributes of modules, and items of the dicts among them. Other modules are `alone`."""

    def __init__(self, modules: Sequence[Shallow]) -> None:
        together = [was for was in modules if _is_plain(was)]
        self.alone = [was for was in modules if not _is_plain(was)]
        self._modules = [was.module for was in together]
        self._classes = [was.cls for was in together]
        self._empty = [held for was in together for held in was.empty]
        self._tables: list[dict[Any, Any]] = [was.state for was in together]
        keys: list[Iterable[Any]] = [was.items for was in together]
        values: list[Iterable[Any]] = [was.items.values() for was in together]
        for was in together:
            for held, items in was.filled.values():
                half = len(items) // 2
                self._tables.append(held)
                keys.append(items[:half])
                values.append(items[half:])
        self._lengths = list(map(len, keys))  # type: ignore[arg-type]
        self._keys, self._values = list(chain(*keys)), list(chain(*values))
        self._names = {str}.issuperset(map(type, self._keys))  # other keys may compare in any way
        self.trained = [was.module for was in together if was.items.get("training") is True]

    def are_same(self) -> bool:
        return (
            identical(map(type, self._modules), self._classes)
            and not any(map(len, self._empty))
            and list(map(len, self._tables)) == self._lengths
            and self._has_same_keys()
            and identical(chain.from_iterable(map(dict.values, self._tables)), self._values)
        )

    def _has_same_keys(self) -> bool:
        now = list(chain.from_iterable(self._tables))
        return now == self._keys if self._names else identical(now, self._keys)


def _is_plain(was: Shallow) -> bool:
    """Return True for a module whose attributes are in a dict, and whose containers are dicts."""
    held = (type(held) is dict for held, _ in was.filled.values())
    return not (was.slots or was.scripted) and type(was.state) is dict and all(held)


class Untouched:
    """Tensors that were not written to, given other memory or gradients. Others are `alone`."""

    def __init__(self, tensors: Iterable[KeptTensor]) -> None:
        self._kept: list[KeptTensor] = []
        self.alone: list[KeptTensor] = []
        for kept in tensors:
            (self._kept if _is_comparable(kept) else self.alone).append(kept)
        self._tensors = [kept.tensor for kept in self._kept]
        self._leaves = [kept for kept in self._kept if kept.tensor.is_leaf]
        self._were = self._now()

    def are_same(self) -> bool:
        try:
            same = self._now() == self._were
        except (NotImplementedError, RuntimeError):  # one is a wrapper of another tensor now
            return False
        # A write that was announced may not show in the version.
        return (
            same
            and all(kept.copy is None for kept in self._kept)
            and all(kept.tensor.grad is kept.grad for kept in self._leaves)
        )

    def _now(self) -> tuple[list[Any], ...]:
        tensors = self._tensors
        return (
            list(map(_OF_A_TENSOR, tensors)),
            list(map(torch.Tensor.data_ptr, tensors)),
            list(map(torch.Tensor.stride, tensors)),
        )


def _is_comparable(kept: KeptTensor) -> bool:
    """Return True for a plain tensor of which no copy is compared."""
    tensor = kept.tensor
    plain = type(tensor) in _PLAIN and tensor.layout is torch.strided and not tensor.is_nested
    try:
        tensor.data_ptr()
    except (NotImplementedError, RuntimeError):  # a wrapper of another tensor
        return False
    return plain and not tensor.is_meta and kept.untouched

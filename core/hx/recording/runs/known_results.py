"""Results of the model that one export knows: equal inputs are not run again.

The proof of a second strategy asks much of what the proof of the first one asked. A result is found
by the bytes of all inputs. It is only for those who want to know the result: a run that watches the
model, or tells whether two runs agree, is made anew.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from ... import tensor_bytes
from ...budget import BUDGET
from ...ir.request import Call, Inputs


@dataclass(frozen=True)
class Returned:
    """The model's flat outputs, and the lines that it ran, where they are counted."""

    results: list[Any]
    lines: int = 0


@dataclass(frozen=True)
class Raised:
    """The model's own error."""

    error: Exception


@dataclass(frozen=True)
class Unfinished:
    """A run that was aborted: it may never end."""


Ran: TypeAlias = Returned | Raised | Unfinished
Key: TypeAlias = tuple[int, bool, bytes]


class KnownResults:
    """Results by the call, by whether lines were counted, and by a digest of the inputs.

    They are only ever added to, up to a limit in bytes.
    """

    def __init__(self) -> None:
        self._by_key: dict[Key, Ran] = {}
        self._calls: dict[int, Call] = {}  # held: an id is reused when its object is gone
        self._left = BUDGET.bytes.known_results

    def find(self, key: Key | None) -> Ran | None:
        return None if key is None else self._by_key.get(key)

    def key(self, call: Call, counted: bool, feeds: Inputs) -> Key | None:
        """Return the key of these inputs; None if their bytes do not describe them fully."""
        digest = hashlib.blake2b(digest_size=32)
        for name, tensor in feeds.items():
            if not _is_plain(tensor):
                return None
            told = (name, tensor.dtype, tensor.device, tensor.shape, tensor.stride())
            digest.update(repr(told).encode())
            for piece in tensor_bytes.chunks(tensor):
                digest.update(piece)
        self._calls[id(call)] = call
        return id(call), counted, digest.digest()

    def add(self, key: Key | None, ran: Ran) -> None:
        if key is None or key in self._by_key:
            return
        size = _bytes(ran.results) if isinstance(ran, Returned) else 0
        if size > self._left:
            return
        self._left -= size
        if isinstance(ran, Raised):
            _drop_frames(ran.error)
        self._by_key[key] = ran


def _is_plain(tensor: torch.Tensor) -> bool:
    own = type(tensor) is torch.Tensor or type(tensor) is torch.nn.Parameter
    return (
        own
        and tensor.layout is torch.strided
        and not (tensor.is_quantized or tensor.is_meta or tensor.is_conj() or tensor.is_neg())
    )


def _bytes(results: list[Any]) -> int:
    return sum(x.numel() * x.element_size() for x in results if isinstance(x, torch.Tensor))


def _drop_frames(error: BaseException | None) -> None:
    """Let go of the frames in which an error was raised: they hold the tensors of the run."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__

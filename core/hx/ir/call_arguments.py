"""Arguments of one call of a model. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Arguments:
    args: tuple
    kwargs: dict[str, Any]

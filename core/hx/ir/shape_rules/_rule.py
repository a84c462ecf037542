"""The table of rules, and the decorator that adds one."""

from __future__ import annotations

from collections.abc import Callable

from ..shapes import Shape

Rule = Callable[[list, dict, int], "list[Shape | None] | None"]
RULES: dict[str, Rule] = {}


def rule(*ops: str):
    def register(function: Rule) -> Rule:
        for op in ops:
            RULES[op] = function
        return function

    return register

"""Tables of functions that write an operator in another form, by its name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..ir.value import Value
from .writers import OpWriter

Form = Callable[..., Any]


class OperatorForms(dict[str, Form]):
    """Functions that write operators, and return one value or several."""

    def of(self, *operators: str) -> Callable[[Form], Form]:
        """Register a function for operators; one for several takes the operator's name as `name`."""

        def register(form: Form) -> Form:
            several = len(operators) > 1
            self.update(
                (n, functools.partial(form, name=n) if several else form) for n in operators
            )
            return form

        return register

    def write(
        self, op: OpWriter, name: str, inputs: Any, attributes: dict, count: int | None
    ) -> list[Value] | None:
        """The outputs of `form(op, inputs, attributes, count)`; None if there is no form for them."""
        made = self[name](op, inputs, attributes, count) if name in self else NotImplemented
        return None if made is None or made is NotImplemented else listed(made)


def listed(made: Any) -> list[Value]:
    return list(made) if isinstance(made, (list, tuple)) else [made]

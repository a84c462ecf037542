"""Options of other exporters that were given to hx.export, and what hx calls them."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")

# Options of torch.onnx.export under another name in hx.
RENAMED = {
    "f": "path",
    "dynamic_axes": "dynamic",
    "dynamic_shapes": "dynamic",
    "opset_version": "opset",
}
# Options of torch.onnx.export that hx does without.
NOT_NEEDED = frozenset({
    "artifacts_dir", "autograd_inlining", "custom_opsets", "custom_translation_table",
    "do_constant_folding", "dump_exported_program", "dynamo", "export_modules_as_functions",
    "export_params", "fallback", "keep_initializers_as_inputs", "operator_export_type", "optimize",
    "profile", "report", "training", "verbose",
})  # fmt: skip


def explains_unknown_options(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that an unknown option is a usage error with a hint."""

    @functools.wraps(function)
    def decorated(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except TypeError:
            known = list(inspect.signature(function).parameters)
            unknown = [name for name in kwargs if name not in known]
            if not unknown:
                raise
        hint = "; ".join(dict.fromkeys(_advice(name, known) for name in unknown))
        what = f"hx.{function.__name__} has no option {', '.join(unknown)}"
        raise UsageError(what, hint=hint)

    return decorated


def _advice(name: str, known: list[str]) -> str:
    if RENAMED.get(name) in known:
        return f"{name} is {RENAMED[name]}= in hx"
    if name in NOT_NEEDED:
        return f"leave {name} out"
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}=?" if near else f"the options are {', '.join(known)}"

"""Reference kernels of packs, as onnx's reference evaluator takes them.

A kernel is a plain function of numpy arrays, with the operator's attributes by name. An operator
input that is left out arrives as None; an attribute that the node does not have keeps the
function's default. One that the function does not take is an error: dropped, a misspelt one would
pass for the default.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any

from hx.contributions import ReferenceKernel
from hx.errors import VerificationError, Where
from hx.packs.guarded import guarded
from hx.registration import place
from hx.text import amount, with_article

ITS = (VerificationError, "correct the kernel; hx_reference_kernels() of the pack gives it")


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def op_runs(kernels: Iterable[ReferenceKernel]) -> list[type]:
    """One class for each kernel, for `prove(custom_ops=...)` of `hx.proof.file_proof`."""
    return [_op_run(kernel) for kernel in kernels]


def _op_run(kernel: ReferenceKernel) -> type:
    from onnx.reference.op_run import OpRun

    parameters = inspect.signature(kernel.run).parameters.values()
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = [each.name for each in parameters if each.kind in _NAMED]
    name = f"{kernel.domain}::{kernel.op_type}"

    def run(self: Any, *inputs: Any, **_: Any) -> tuple[Any, ...]:
        given = {each.name: _value(each) for each in self.onnx_node.attribute}
        unknown = [] if open_ended else [each for each in given if each not in named]
        if unknown:
            raise VerificationError(
                f"the reference kernel of {name} ({kernel.pack}) takes no attribute "
                f"{unknown[0]}, which the node has",
                where=Where(*place(kernel.run)),
                hint=_near(unknown[0], [each for each in named if each not in given]),
            )
        with guarded(f"the reference kernel of {name} ({kernel.pack}) raises", *ITS):
            result = kernel.run(*inputs, **given)
        results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        wanted = len(self.onnx_node.output)
        wrong = [with_article(each) for each in results if not hasattr(each, "__array_interface__")]
        if len(results) != wanted or wrong:
            raise VerificationError(
                f"the reference kernel of {name} ({kernel.pack}) gave "
                + (wrong[0] if wrong else amount(len(results), "array"))
                + f", and the node has {amount(wanted, 'output')}",
                where=Where(*place(kernel.run)),
                hint="it returns an array of numpy for each output",
            )
        return results

    return type(
        kernel.op_type, (OpRun,), {"op_domain": kernel.domain, "op_schema": None, "_run": run}
    )


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f"did you mean {near[0]}? The converter writes the node"
    return "the converter writes the node; a kernel with **others takes any"


def _value(attribute: Any) -> Any:
    import onnx

    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [each.decode() if isinstance(each, bytes) else each for each in value]
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value

"""Calls that raise for some values, within a `try` of the model that catches it.

`try: torch.linalg.cholesky(a)` decides the model's path, like a question, also if nothing is raised
in the recording. Which functions may raise is decided once for each, and whether a `try` is around
the call only for those.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from ... import torch_facts
from ..memory.live_tensors import Live
from ..origins import is_machinery
from ..reads.note_escapes import note_escape
from ..recording import Recording
from .arguments import tensors_in

# Functions that raise on some values: on indexes and counts out of range, or on matrices that
# have no factor or no inverse.
_PLACES = """embedding gather index_select index_add index_copy index_fill index_put index_reduce
    scatter scatter_add scatter_reduce select take take_along_dim one_hot bincount repeat_interleave
    nll_loss cross_entropy nll_loss2d unravel_index""".split()
_MATRICES = """cholesky cholesky_inverse inverse linalg_cholesky linalg_inv linalg_solve
    linalg_lstsq linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_svd linalg_svdvals
    linalg_pinv linalg_tensorinv linalg_tensorsolve linalg_matrix_rank logdet pinverse svd slogdet
    multinomial bernoulli poisson""".split()
_OF_FLOATS = {f"aten::{name}": name in _MATRICES for name in (*_PLACES, *_MATRICES)}
_OF_FLOATS.update({"Tensor.__getitem__": False, "Tensor.__setitem__": False})
# Errors that no value of a tensor raises.
_OTHERS = frozenset(
    """ImportError ModuleNotFoundError AttributeError KeyError TypeError NotImplementedError OSError
    FileNotFoundError IOError StopIteration AssertionError NameError OverflowError UnicodeError
    KeyboardInterrupt MemoryError TimeoutError RecursionError""".split()
)


def guarded(key: Any, action: Callable) -> Callable:
    """An action that notes the calls within a `try`, for a function that may raise; else as it is."""
    own = getattr(key, "__module__", None) == "torch.nn.functional"
    of_floats = _OF_FLOATS.get(
        f"aten::{key.__name__}" if own else key if isinstance(key, str) else ""
    )
    if of_floats is None:
        return action

    def noted(recording: Recording, key: Any, func: Any, args: Any, kwargs: Any, door: Any) -> Any:
        result = action(recording, key, func, args, kwargs, door)
        if recording.running.asked_function is None and _is_tried(recording):
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                decides = _decides(recording.memory.live, of_floats, (args, kwargs))
            if decides:
                name = torch_facts.public_name(func, key)
                told = f"{name} raised nothing, which other values may change"
                note_escape(recording, "raises", f"{told}, and what follows would be caught")
        return result

    return noted


def _decides(live: Live, of_floats: bool, given: Any) -> bool:
    """Return True if tensors that may raise follow from inputs."""
    kinds = [t for _, t in tensors_in(given) if _floats(t) is of_floats and t.dtype != torch.bool]
    entries = [live.find(tensor) for tensor in kinds]
    return any(entry is not None and not entry.value.fixed for entry in entries)


def _floats(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _is_tried(recording: Recording) -> bool:
    """Return True if a frame of the model runs the body of a `try`."""
    frames = recording.position.frames
    frame: FrameType | None = frames.inside()
    while frame is not None and not frames.is_outer(frame):
        if not is_machinery(frame.f_code):
            line = frame.f_lineno
            if any(first <= line <= last for first, last in _tries(frame.f_code.co_filename)):
                return True
        frame = frame.f_back
    return False


@functools.lru_cache(maxsize=64)
def _tries(file: str) -> list[tuple[int, int]]:
    """The lines of a file whose errors are caught: from the first to the last, for each place."""
    text = "".join(linecache.getlines(file))
    if "except" not in text and "suppress" not in text:
        return []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    return [*_bodies(tree)]


def _bodies(tree: ast.AST) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(map(_catches, node.handlers)):
            yield node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno
        if isinstance(node, ast.With):
            calls = (item.context_expr for item in node.items)
            if any("suppress" in _names(call) for call in calls if isinstance(call, ast.Call)):
                yield node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno


def _catches(handler: ast.ExceptHandler) -> bool:
    """Return True for a handler that values may lead to, and that does not raise again."""
    if isinstance(handler.body[-1], ast.Raise):
        return False
    return handler.type is None or bool(_names(handler.type) - _OTHERS)


def _names(node: ast.AST) -> set[str]:
    """The last names in an expression: those of `torch.linalg.LinAlgError` and of a tuple."""
    if isinstance(node, ast.Call):
        return _names(node.func)
    if isinstance(node, ast.Tuple):
        return set().union(*map(_names, node.elts))
    return {getattr(node, "attr", getattr(node, "id", "?"))}

"""What an export is proved on: the recorded inputs, other ones, and other sizes."""

from __future__ import annotations

import os
from typing import Any

import torch

from .capture import Capture
from .errors import HxError
from .modelstate import preserved
from .verify import Case, Proof, fresh, prove, resized


def prove_program(captured: Capture, path: str | os.PathLike, custom_ops: Any = ()) -> Proof:
    """Runs the written file against the model; a model that refuses a size is not asked for it."""
    prepared = captured.prepared
    recorded = dict(prepared.tensors)
    cases = [Case("recorded", recorded, captured.real)]
    others = [("fresh", fresh(recorded, seed=1))]
    for name, sizes in _sizes(captured):
        tensors = {
            key: resized(
                tensor,
                {a: sizes[w] for a, w in prepared.dynamic.get(key, {}).items() if w in sizes},
                seed=2,
            )
            for key, tensor in recorded.items()
        }
        others.append((name, tensors))
    for name, tensors in others:
        try:
            expected = run(captured, tensors)
        except HxError:
            raise
        except Exception as e:
            first = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
            captured.notes.append(f"the model itself refuses {name} inputs: {first}")
            continue
        cases.append(Case(name, tensors, expected))
    return prove(path, cases, custom_ops=custom_ops)


def _sizes(captured: Capture) -> list[tuple[str, dict[str, int]]]:
    """Other sizes for every dynamic name: all of them larger, then each alone at 1."""
    words: dict[str, int] = {}
    for name, axes in captured.prepared.dynamic.items():
        for axis, word in axes.items():
            words[word] = captured.prepared.tensors[name].shape[axis]
    if not words:
        return []
    larger = {w: n + 1 + i % 2 for i, (w, n) in enumerate(words.items())}
    out = [(_told(larger), larger)]
    for word, n in words.items():
        other = {**words, word: 1 if n != 1 else 3}
        out.append((_told({word: other[word]}), other))
    return out


def _told(sizes: dict[str, int]) -> str:
    return ", ".join(f"{w}={n}" for w, n in sizes.items())


def run(captured: Capture, tensors: dict[str, torch.Tensor]) -> list[Any]:
    """The model's own flat outputs on other inputs, leaving it as it was."""
    import contextlib

    from . import structures

    prepared, model = captured.prepared, captured.prepared.model
    copies = {k: t.detach().clone() for k, t in tensors.items()}
    args, kwargs = prepared.with_tensors(copies)
    guard = preserved(model) if isinstance(model, torch.nn.Module) else contextlib.nullcontext()
    asked: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(guard)
        stack.enter_context(torch.no_grad())
        if captured.wanted:
            for path in captured.wanted:
                handle = model.get_submodule(path).register_forward_hook(
                    lambda m, i, o, path=path: asked.__setitem__(
                        path,
                        structures.replace(
                            o, lambda n, t: t.clone() if isinstance(t, torch.Tensor) else t
                        ),
                    )
                )
                stack.callback(handle.remove)
        result = model(*args, **kwargs)
        if captured.wanted:
            result = {path: asked[path] for path in captured.wanted}
        return [
            leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
            for _, leaf in structures.leaves(result)
            if isinstance(leaf, (torch.Tensor, bool, int, float))
        ]



"""Things and numbers as part of a sentence: a Linear, 2 nodes, float32[2,3], 1.5 MB, 3 ms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def with_article(thing: Any) -> str:
    """Name the class of a thing, with an article."""
    if thing is None:
        return "None"
    name = type(thing).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def amount(count: int, thing: str, things: str = "") -> str:
    return f"{count:,} {thing if count == 1 else things or f'{thing}s'}"


def relative_paths(text: str) -> str:
    """Return the text with paths relative to the current folder, or to the library they are in."""
    text = re.sub(r"[^\s'\"]*/(?:(?:site|dist)-packages|lib/python3\.\d+)/", "", text)
    here = str(Path.cwd())
    return text if here == "/" else text.replace(f"{here}/", "")


def first_few(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def first_line(problem: BaseException) -> str:
    """Return the first line of an error's text, or its class if it has none."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", most: int = 1) -> str:
    """Return a hint for a misspelt name: those that are most like it; else the other hint."""
    import difflib

    near = difflib.get_close_matches(name, list(known), most)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def torch_dtype(name: str) -> str:
    """Return torch's name of a dtype that ONNX calls FLOAT or double."""
    name = name.lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def tensor_text(dtype: Any, shape: Iterable[Any]) -> str:
    """Describe a tensor by its dtype, or the name of that: `float32[1,512,7,7]`."""
    return f"{str(dtype).removeprefix('torch.')}[{','.join(map(str, shape))}]"


def rounded(count: int) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if count >= size:
            return f"{count / size:.1f} {letter}"
    return f"{count:,}"


def time_text(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def bytes_text(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"


def aligned(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Align names to one width, and the lines of their values; empty values are left out."""
    shown = [(name, str(value)) for name, value in pairs if value not in (None, "", [], ())]
    size = max((len(name) for name, _ in shown), default=0)
    indent = "\n" + " " * (size + 2)
    return [(name.ljust(size), value.replace("\n", indent)) for name, value in shown]

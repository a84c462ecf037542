"""A list of models in TOML.

    opset = 18                     # holds for every model of the list
    limit = 600                    # seconds for each model

    [[model]]
    spec = "torchvision:resnet50"
    output = "resnet50.onnx"
    input = ["x=float32[batch,3,224,224]"]

A table is one call of `hx export`: its keys are the options of the command line without their
dashes. Paths are relative to the folder of the list.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hx.errors import UsageError
from hx.saving import destinations
from hx.text import did_you_mean
from hx.weights.tensor_files import absent

OWN = ("spec", "output", "limit")  # keys that are no options of `hx export`


@dataclass(frozen=True)
class Option:
    """One option of `hx export`, and the values that a list may give it."""

    word: str  # `--opset`
    kind: type  # bool, int or str
    several: bool = False
    off: str = ""  # the word that turns a flag off


@dataclass
class Entry:
    """One model of a list."""

    number: int
    place: str  # "models.toml:7", for messages
    spec: str
    output: Path
    folder: Path  # of the list, where the export runs
    words: list[str]  # all options, as the command line has them
    reads: list[Path] = field(default_factory=list)  # weights and inputs
    limit: float | None = None  # seconds

    @property
    def pages(self) -> list[Path]:
        """Reports of its own that the list asks for."""
        pairs = zip(self.words, self.words[1:])
        return [self.folder / path for word, path in pairs if word == "--report"]

    @property
    def results(self) -> list[Path]:
        return [self.output, *self.pages]

    @property
    def sources(self) -> list[destinations.Source]:
        read = [source for path in self.reads for source in destinations.of_weights(path)]
        return [*destinations.of_spec(self.spec, self.folder), *read]


def read_list(path: Path, options: Mapping[str, Option]) -> list[Entry]:
    """Return the entries of a list; raise a UsageError with the line of the first mistake."""
    text = _text(path)
    try:
        table = _toml().loads(text)
    except ValueError as problem:
        raise UsageError(f"{path} is not valid TOML: {problem}") from None
    models = table.pop("model", None)
    if not isinstance(models, list) or not models or not all(isinstance(m, dict) for m in models):
        raise UsageError(
            f"{path} lists no models",
            hint='each is a table of its own: [[model]], spec = "...", output = "..."',
        )
    lines = [i for i, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*model", line)]
    limit = _limit(table, f"{path}", None)
    defaults = _words(table, options, f"{path}", above=True)
    entries: list[Entry] = []
    for number, model in enumerate(models, 1):
        line = f":{lines[number - 1]}" if len(lines) == len(models) else ""
        place = f"{path}{line} (model {number})"
        entry = _entry(number, place, dict(model), options, defaults, path.absolute().parent)
        entry.limit = _limit(model, place, limit)
        entries.append(entry)
    _require_apart(entries, path)
    return entries


def _require_apart(entries: list[Entry], listed: Path) -> None:
    """Each result is a file of its own, and none is what a model of the list is made from."""
    taken: dict[Any, tuple[Path, Entry]] = {}
    for entry in entries:
        for result in entry.results:
            other, owner = taken.setdefault(destinations.identity(result), (result, entry))
            if other is not result:
                raise UsageError(
                    f"{entry.place}: {result.name} is already the output of model {owner.number}",
                    why=f"{owner.place} says {other}, which is that file"
                    if other != result
                    else "",
                )
    sources = [("the list of models", listed), *(s for each in entries for s in each.sources)]
    for source in sources:
        if (found := taken.get(destinations.identity(source[1]))) is not None:
            result, entry = found
            destinations.require_apart(f"{entry.place}: {result.name}", result, [source])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(absent(path)) from None
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {(problem.strerror or '').lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text in UTF-8") from None


def _toml() -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib


def _entry(
    number: int,
    place: str,
    model: dict[str, Any],
    options: Mapping[str, Option],
    defaults: dict[str, list[str]],
    folder: Path,
) -> Entry:
    own = _words({k: v for k, v in model.items() if k not in OWN}, options, place)
    for key in ("spec", "output"):
        if not isinstance(model.get(key), str) or not model[key]:
            example = "torchvision:resnet50" if key == "spec" else "resnet50.onnx"
            raise UsageError(f"{place} has no {key}", hint=f'write {key} = "{example}"')
    spec, output = model["spec"], model["output"]
    given = {**defaults, **own}
    words = [word for key in sorted(given) for word in given[key]]
    reads = [folder / each for key in ("weights", "inputs") for each in given.get(key, ())[1::2]]
    return Entry(number, place, spec, folder / output, folder, words, reads)


def _words(
    table: Mapping[str, Any], options: Mapping[str, Option], place: str, above: bool = False
) -> dict[str, list[str]]:
    """Each key with the words of the command line that mean the same."""
    found: dict[str, list[str]] = {}
    for name, value in table.items():
        key = name.replace("_", "-")
        option = options.get(key)
        if option is None:
            known = [*OWN, *options]
            raise UsageError(
                f"{place} has no setting {name!r}"
                + (": above the first [[model]] are settings for all" if above else ""),
                hint=did_you_mean(key, known, f"settings are {', '.join(known)}"),
            )
        found[key] = _as_words(option, value, f"{place}: {name}")
    return found


def _limit(table: dict[str, Any], place: str, default: float | None) -> float | None:
    """The seconds that a model may take; the key is taken out of the table."""
    value = table.pop("limit", default)
    if value is not None and (type(value) not in (int, float) or value <= 0):
        raise UsageError(f"{place}: limit is a number of seconds, not {value!r}")
    return value


def _as_words(option: Option, value: Any, what: str) -> list[str]:
    if option.kind is bool:
        if not isinstance(value, bool):
            raise UsageError(f"{what} is true or false, not {value!r}")
        return [option.word] if value else [option.off] if option.off else []
    values = value if isinstance(value, list) and option.several else [value]
    for each in values:
        if type(each) is not option.kind:
            kind = "a whole number" if option.kind is int else "a string"
            kind += " or a list of them" if option.several else ""
            raise UsageError(f"{what} is {kind}, not {value!r}")
    return [word for each in values for word in (option.word, str(each))]

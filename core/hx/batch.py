"""Many models, from a list in TOML: one process each, several at once, and what is done stays done.

    opset = 18                     # holds for every model of the list

    [[model]]
    spec = "torchvision:resnet50"
    output = "resnet50.onnx"
    input = ["x=float32[batch,3,224,224]"]

A table is one call of `hx export`: its keys are the words of the command line without their
dashes. Paths are seen from the folder of the list. What was made is noted beside the list, with all
that it was made from (the files that were read, packs, settings); a model is made again when any of
that has changed.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hx.config import standing
from hx.errors import UsageError
from hx.inputs.files import absent
from hx.noted import Stamp, stamp
from hx.packs import installed
from hx.saving import destinations

GRACE = 20.0  # seconds that a stopped export has to put everything in order


@dataclass(frozen=True)
class Option:
    """One option of `hx export`: the word for it, and what a list may give it."""

    word: str
    kind: type  # bool, int or str
    several: bool = False
    no: str = ""  # the word that turns a flag off


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

    @property
    def results(self) -> list[Path]:
        pairs = zip(self.words, self.words[1:])
        return [self.output, *(self.folder / path for word, path in pairs if word == "--report")]

    @property
    def sources(self) -> list[destinations.Source]:
        read = [source for path in self.reads for source in destinations.of_weights(path)]
        return [*destinations.of_spec(self.spec, self.folder), *read]


@dataclass
class Result:
    entry: Entry
    state: str  # ok, failed, done before, stopped, not started
    code: int = 0
    seconds: float = 0.0
    data: dict[str, Any] = field(default_factory=dict)  # what the export said, as JSON
    why: str = ""


# The list.


def read(path: Path, options: Mapping[str, Option]) -> list[Entry]:
    """The entries of a list; everything that is off is told with its place."""
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
    defaults = _words(table, options, f"{path}", above=True)
    entries: list[Entry] = []
    for number, model in enumerate(models, 1):
        line = f":{lines[number - 1]}" if len(lines) == len(models) else ""
        place = f"{path}{line} (model {number})"
        entry = _entry(number, place, dict(model), options, defaults, path.absolute().parent)
        entries.append(entry)
    _require_apart(entries, path)
    return entries


def _require_apart(entries: list[Entry], listed: Path) -> None:
    """Each result is a file of its own, and none is what a model of the list is made from."""
    taken: list[tuple[Path, Entry]] = []
    for entry in entries:
        for result in entry.results:
            for other, owner in taken:
                if destinations.same(other, result):
                    raise UsageError(
                        f"{entry.place}: {result.name} is already the output of model {owner.number}",
                        why=f"{owner.place} says {other}, which is that file"
                        if other != result
                        else "",
                    )
            taken.append((result, entry))
    sources = [("the list of models", listed), *(s for each in entries for s in each.sources)]
    for result, entry in taken:
        destinations.require_apart(f"{entry.place}: {result.name}", result, sources)


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
    wanted = ("spec", "output")
    said = _words({k: v for k, v in model.items() if k not in wanted}, options, place)
    for key in wanted:
        if not isinstance(model.get(key), str) or not model[key]:
            example = "torchvision:resnet50" if key == "spec" else "resnet50.onnx"
            raise UsageError(f"{place} has no {key}", hint=f'write {key} = "{example}"')
    spec, output = model["spec"], model["output"]
    given = {**defaults, **said}
    words = [word for key in sorted(given) for word in given[key]]
    reads = [folder / given[key][1] for key in ("weights", "inputs") if key in given]
    return Entry(number, place, spec, folder / output, folder, words, reads)


def _words(
    table: Mapping[str, Any], options: Mapping[str, Option], place: str, above: bool = False
) -> dict[str, list[str]]:
    """Each key with the words of the command line that say it."""
    found: dict[str, list[str]] = {}
    for name, value in table.items():
        key = name.replace("_", "-")
        option = options.get(key)
        if option is None:
            known = ["spec", "output", *options]
            near = difflib.get_close_matches(key, known, 1)
            raise UsageError(
                f"{place} has no setting {name!r}"
                + (": above the first [[model]] are settings for all" if above else ""),
                hint=f"did you mean {near[0]}?" if near else f"settings are {', '.join(known)}",
            )
        found[key] = _said(option, value, f"{place}: {name}")
    return found


def _said(option: Option, value: Any, what: str) -> list[str]:
    if option.kind is bool:
        if not isinstance(value, bool):
            raise UsageError(f"{what} is true or false, not {value!r}")
        return [option.word] if value else [option.no] if option.no else []
    values = value if isinstance(value, list) and option.several else [value]
    for each in values:
        if type(each) is not option.kind:
            kind = "a whole number" if option.kind is int else "a string"
            kind += " or a list of them" if option.several else ""
            raise UsageError(f"{what} is {kind}, not {value!r}")
    return [word for each in values for word in (option.word, str(each))]


# What is done already.


class Notes:
    """What was made of a list, in a file beside it."""

    def __init__(self, listed: Path) -> None:
        self.path = listed.absolute().with_name(f".{listed.name}.done")
        self._done: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.path.read_text(encoding="utf-8"))
            self._done = {k: v for k, v in found.items() if isinstance(v, dict)}

    def done(self, entry: Entry) -> dict[str, Any] | None:
        """What was said when the entry was made, if it would be made the same way now."""
        note = self._done.get(str(entry.output))
        if note is None or note.get("made_from") != _made_from(entry):
            return None
        read = note.get("read")
        if not read or any(stamp(path) != state for path, state in read.items()):
            return None
        return note.get("said") if note.get("files") == _files(entry, note.get("said")) else None

    def add(
        self, entry: Entry, said: dict[str, Any], made_from: str, read: dict[str, Stamp]
    ) -> None:
        self._done[str(entry.output)] = {
            "made_from": made_from,
            "read": read,
            "files": _files(entry, said),
            "said": said,
        }
        new = self.path.with_name(f"{self.path.name}.new")
        with contextlib.suppress(OSError):  # then all of it is made again next time
            new.write_text(json.dumps(self._done), encoding="utf-8")
            new.replace(self.path)


def _made_from(entry: Entry) -> str:
    """Changes when the entry, its weights, a setting, the Python or the set of packs changes.

    What else it is made from is known when it has been made.
    """
    parts: list[Any] = [
        entry.spec,
        *entry.words,
        sys.executable,
        sys.version,
        os.environ.get("PYTHONPATH"),
    ]
    with contextlib.suppress(UsageError):  # which the export tells
        parts.append(standing(entry.folder))
    parts += [(pack.key, pack.version, pack.value) for pack, _ in installed.find()]
    for path in entry.reads:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        parts += [(each.name, stamp(each)) for each in inside]
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()


def _files(entry: Entry, said: Any) -> list[Stamp]:
    data = ((said or {}).get("report") or {}).get("data_path")
    beside = stamp(entry.output.with_name(Path(data).name)) if data else None
    return [stamp(entry.output), beside]


# The run.


@dataclass
class _Running:
    entry: Entry
    process: subprocess.Popen
    said: tempfile.TemporaryDirectory  # its stdout and stderr, and what it read
    started: float
    made_from: str


def run(
    entries: Sequence[Entry],
    notes: Notes,
    jobs: int = 1,
    again: bool = False,
    tell: Callable[[Result], None] = lambda result: None,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Result]:
    """All of them, `jobs` at a time; stopped, it ends what runs, and tells what there is."""
    results: dict[int, Result] = {}

    def finish(result: Result) -> None:
        results[result.entry.number] = result
        tell(result)

    waiting = []
    for entry in entries:
        said = None if again else notes.done(entry)
        if said is None:
            waiting.append(entry)
        else:
            finish(Result(entry, "done before", data=said))
    running: list[_Running] = []
    with _stoppable() as stopped:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    entry = waiting.pop(0)
                    running.append(_start(entry, jobs))
                time.sleep(0.02)
                for each in [r for r in running if r.process.poll() is not None]:
                    running.remove(each)
                    finish(_ended(each, notes))
                names = ", ".join(each.entry.output.name for each in running)
                progress(f"{len(results)} of {len(entries)}: {names}")
                if stopped():
                    break
        finally:
            for each in running:  # Ctrl-C in a terminal reaches them too
                with contextlib.suppress(ProcessLookupError):
                    each.process.send_signal(signal.SIGINT)
            for each in running:
                finish(_cut_short(each, notes))
    for entry in entries:
        if entry.number not in results:
            results[entry.number] = Result(entry, "not started", 130)
    return [results[entry.number] for entry in entries]


@contextlib.contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and a polite kill are noted, and answered between two looks at the processes."""
    caught: list[int] = []
    before = {}
    for name in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError):  # not in the main thread: then nobody stops us
            before[name] = signal.signal(name, lambda number, frame: caught.append(number))
    try:
        yield lambda: bool(caught)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _start(entry: Entry, jobs: int) -> _Running:
    environment = dict(os.environ)
    if jobs > 1:  # or each would take all of the cores
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (cores or 1) // jobs)))
    said = tempfile.TemporaryDirectory(prefix="hx-batch-")
    words = ["export", entry.spec, "-o", str(entry.output), *entry.words, "--json", "--quiet"]
    made_from = _made_from(entry)  # before it is read: what changes meanwhile counts as a change
    out, err, read = _outputs(said)
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "hx.noted", str(read), *words],
            cwd=entry.folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=environment,
        )
    return _Running(entry, process, said, time.perf_counter(), made_from)


def _ended(run: _Running, notes: Notes) -> Result:
    seconds = time.perf_counter() - run.started
    code = run.process.returncode
    said, told, read = _said_by(run)
    if code == 0 and said.get("ok"):
        notes.add(run.entry, said, run.made_from, read)
        return Result(run.entry, "ok", 0, seconds, said)
    why = (said.get("error") or {}).get("what") or (told.splitlines() or [""])[-1]
    if code < 0:  # killed from outside, or crashed
        why = f"it was ended by signal {-code} ({signal.Signals(-code).name})"
    return Result(run.entry, "failed", code if 0 < code < 128 else 1, seconds, said, why)


def _cut_short(run: _Running, notes: Notes) -> Result:
    try:
        run.process.wait(GRACE)
    except subprocess.TimeoutExpired:
        run.process.kill()
        run.process.wait()
    result = _ended(run, notes)
    if result.state == "failed":
        result.state, result.code, result.why = "stopped", 130, ""
    return result


def _outputs(said: tempfile.TemporaryDirectory) -> tuple[Path, Path, Path]:
    return Path(said.name, "stdout"), Path(said.name, "stderr"), Path(said.name, "read")


def _said_by(run: _Running) -> tuple[dict[str, Any], str, dict[str, Stamp]]:
    out, err, read = _outputs(run.said)
    with run.said:
        return _table(out), err.read_text("utf-8", "replace").strip(), _table(read)


def _table(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8", "replace"))
    except (OSError, ValueError):  # it was stopped before it could say anything
        return {}
    return found if isinstance(found, dict) else {}


def worst(results: Sequence[Result]) -> int:
    """The exit code of all: the largest, where each tells more than those below it."""
    return max((result.code for result in results), default=0)

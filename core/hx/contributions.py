"""Records that a pack's hooks return: everything that a pack can give besides converters.

Each is a description that costs nothing to make. `pack` is filled in when the pack is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Graph = TypeVar("Graph")


# Set while a model is made whose weights are streamed from elsewhere: a source may load none.
without_weights: ContextVar[bool] = ContextVar("without_weights", default=False)


@dataclass(frozen=True)
class ModelSource:
    """Source of models: `scheme:name` on the command line calls `load(name)`.

    The function returns a module, or `(module, inputs)`.
    """

    scheme: str
    load: Callable[[str], Any]
    doc: str = ""
    names: Callable[[], Iterable[str]] | None = None  # for completion and near misses
    pack: str = ""


@dataclass(frozen=True)
class Container:
    """Class that holds tensors, by its dotted name, with functions to flatten and unflatten it."""

    type: str
    flatten: Callable[[Any], tuple[Mapping[str, Any], Any]]
    unflatten: Callable[[Mapping[str, Any], Any], Any]
    pack: str = ""

    @property
    def subject(self) -> str:
        """Name of the contribution, as in `--use SUBJECT=PACK`."""
        return self.type


@dataclass(frozen=True)
class ReferenceKernel:
    """Computation of a custom operator: numpy arrays in, attributes by name, arrays out."""

    domain: str
    op_type: str
    run: Callable[..., Any]
    pack: str = ""

    @property
    def subject(self) -> str:
        """Name of the contribution, as in `--use SUBJECT=PACK`."""
        return f"{self.domain}::{self.op_type}"


@dataclass(frozen=True)
class GraphPass(Generic[Graph]):
    """Rewrite of a graph: it changes the graph in place, or returns another.

    A pass of a pack gets the finished `onnx_ir.Model`. hx's own passes get the graph before its
    values have names: they are listed in `hx.graph.graph`.
    """

    name: str
    run: Callable[[Graph], Graph | None]
    doc: str = ""
    pack: str = ""

    def result(self, graph: Graph) -> Graph:
        """Run the pass, and return the changed graph or the other one."""
        returned = self.run(graph)
        return graph if returned is None else returned


class WorkerLost(Exception):
    """Loss of the process or machine that ran a function: another may run it."""


class Engine(Protocol):
    """Runner of functions on workers. Functions and arguments are sent there with pickle."""

    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        """Run `function(argument)` on a worker; any exception but its own means that it is lost."""

    def cancel(self, future: Future[Any]) -> None:
        """Do not start the function any more, or end it if the engine can."""

    def close(self) -> None:
        """End the workers that were started for this engine; leave a cluster as it was."""


@dataclass(frozen=True)
class EngineRequest:
    """Options for an engine that the user asks for."""

    address: str = ""  # after the colon in --on ENGINE:ADDRESS
    jobs: int = 1  # number of workers, or of functions at a time if the engine decides on workers
    folder: Path = (
        Path()
    )  # on a disk that all workers share, for files of the engine; deleted later
    limit: float | None = None  # seconds that the longest function may take


@dataclass(frozen=True)
class Executor:
    """Engine for `hx export --batch LIST --on NAME`: `start(request)` connects to it."""

    name: str
    start: Callable[[EngineRequest], Engine]
    doc: str = ""
    retries: bool = False  # whether the engine itself repeats the functions of a lost worker
    pack: str = ""
